import type { ReactNode } from "react";

import classes from "./NoteCard.module.css";

export type Tone = "queued" | "failed" | "active" | "succeeded" | "plain";

interface Props {
  icon: ReactNode;
  label: string;
  tone?: Tone;
  children: ReactNode;
}

/** Something that the platform has to say of a job: an icon, and words beside it. */
export function NoteCard({ icon, label, tone = "queued", children }: Props) {
  return (
    <section className={`card ${classes.card}`} aria-label={label} data-tone={tone}>
      <span className={classes.icon} aria-hidden="true">
        {icon}
      </span>
      <div className={classes.words}>{children}</div>
    </section>
  );
}
