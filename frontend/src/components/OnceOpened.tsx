import { Suspense, useState, type ReactNode } from "react";

interface Props {
  opened: boolean;
  children: ReactNode;
}

/** Renders a dialog whose code is loaded when it opens for the first time; afterwards it stays, so that it can close. */
export function OnceOpened({ opened, children }: Props) {
  const [wanted, setWanted] = useState(opened);
  if (opened && !wanted) setWanted(true);
  return wanted ? <Suspense fallback={null}>{children}</Suspense> : null;
}
