import { lazy, Suspense, useState, type ReactNode } from "react";

import { loadPart } from "../api/parts";

// Dialogs are rare, and what they are made of is not small.
const ConfirmDialog = lazy(() => loadPart(() => import("./ConfirmDialog")));

export interface ConfirmProps {
  opened: boolean;
  title: string;
  children: ReactNode;
  yes: string;
  onYes: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something that cannot be taken back. */
export function Confirm(props: ConfirmProps) {
  const [wanted, setWanted] = useState(props.opened);
  if (props.opened && !wanted) setWanted(true);
  return wanted ? (
    <Suspense fallback={null}>
      <ConfirmDialog {...props} />
    </Suspense>
  ) : null;
}
