import { lazy, type ReactNode } from "react";

import { loadPart } from "../api/parts";
import { OnceOpened } from "./OnceOpened";

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
  return (
    <OnceOpened opened={props.opened}>
      <ConfirmDialog {...props} />
    </OnceOpened>
  );
}
