import type { ReactNode } from "react";

import classes from "./Fact.module.css";
import { Term } from "./Term";
import type { TermName } from "./terms";

export function Facts({ children }: { children: ReactNode }) {
  return <dl className={classes.facts}>{children}</dl>;
}

export function Fact({ name, term, children }: { name: string; term?: TermName; children: ReactNode }) {
  return (
    <div className={classes.fact}>
      <dt>
        {name}
        {term === undefined ? null : <Term of={term} />}
      </dt>
      <dd>{children}</dd>
    </div>
  );
}
