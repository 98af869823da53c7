import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { JobGroup } from "../api/types";

interface Props {
  group: Pick<JobGroup, "id" | "kind">;
  className: string;
  title?: string;
  children: ReactNode;
}

/** A link to the page of the sweep or the array. */
export function GroupLink({ group: { id, kind }, ...rest }: Props) {
  return kind === "array" ? (
    <Link to="/arrays/$arrayId" params={{ arrayId: String(id) }} {...rest} />
  ) : (
    <Link to="/sweeps/$sweepId" params={{ sweepId: String(id) }} {...rest} />
  );
}
