import type { ReactNode } from "react";

import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";

interface Props {
  icon: ReactNode;
  title: string;
  children: ReactNode;
}

/** Something about a running job that its owner should know of and may act on. */
export function MarkCard({ icon, title, children }: Props) {
  return (
    <NoteCard icon={icon} label={title}>
      <h2 className={classes.title}>{title}</h2>
      <div className={classes.text}>{children}</div>
    </NoteCard>
  );
}
