import { useEffect, type ReactNode } from "react";

import classes from "./Page.module.css";
import { Term } from "./Term";
import type { TermName } from "./terms";

/** The frame of a page; its title is the document's too. */
export function Page({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = title === "" ? "Muster" : `${title} · Muster`;
  }, [title]);
  return <div className={classes.page}>{children}</div>;
}

export function PageHeader({ title, sub, actions }: { title: string; sub?: ReactNode; actions?: ReactNode }) {
  return (
    <header className={classes.header}>
      <div style={{ minWidth: 0 }}>
        <h1 className={classes.title}>{title}</h1>
        {sub === undefined ? null : <p className={classes.sub}>{sub}</p>}
      </div>
      {actions === undefined ? null : <div className={classes.actions}>{actions}</div>}
    </header>
  );
}

export function SectionHead({
  title,
  term,
  children,
}: {
  title: string;
  term?: TermName;
  children?: ReactNode;
}) {
  return (
    <div className={classes.sectionHead}>
      <div>
        <h2 className={classes.section}>{title}</h2>
        {term === undefined ? null : <Term of={term} />}
      </div>
      {children}
    </div>
  );
}
