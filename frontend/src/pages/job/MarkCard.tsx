import type { ReactNode } from "react";

import classes from "./MarkCard.module.css";

interface Props {
  icon: ReactNode;
  title: string;
  children: ReactNode;
}

/** Something about a running job that its owner should know of and may act on. */
export function MarkCard({ icon, title, children }: Props) {
  return (
    <section className={`card ${classes.card}`} aria-label={title}>
      <span className={classes.icon} aria-hidden="true">
        {icon}
      </span>
      <div className={classes.words}>
        <h2 className={classes.title}>{title}</h2>
        <div className={classes.text}>{children}</div>
      </div>
    </section>
  );
}
