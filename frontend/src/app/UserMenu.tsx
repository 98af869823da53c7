import { lazy, Suspense, useState } from "react";

import { loadPart } from "../api/parts";
import { UserButton } from "./UserButton";

// What places a menu beside its button is not small, and most visits open none.
const AccountMenu = lazy(() => loadPart(() => import("./AccountMenu")));

/** The button of the account, and the menu that it opens. */
export function UserMenu({ wide = false }: { wide?: boolean }) {
  const [wanted, setWanted] = useState(false);
  const button = <UserButton wide={wide} onClick={() => setWanted(true)} />;
  return wanted ? (
    <Suspense fallback={button}>
      <AccountMenu wide={wide} />
    </Suspense>
  ) : (
    button
  );
}
