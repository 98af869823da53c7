import { Button } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { messageOf, Unreachable } from "../api/problem";
import classes from "./Notice.module.css";

interface EmptyProps {
  icon: ReactNode;
  title: string;
  /** True where this is all that the page has. */
  alone?: boolean;
  children?: ReactNode;
  action?: ReactNode;
}

/** Stands where a list would be when there is nothing in it. */
export function Empty({ icon, title, alone = false, children, action }: EmptyProps) {
  return (
    <div className={classes.empty}>
      <div className={classes.icon}>{icon}</div>
      {alone ? <h1 className={classes.title}>{title}</h1> : <p className={classes.title}>{title}</p>}
      {children === undefined ? null : <div className={classes.text}>{children}</div>}
      {action === undefined ? null : <div className={classes.action}>{action}</div>}
    </div>
  );
}

/** Stands where data would be when it could not be read. */
export function Failed({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const away = error instanceof Unreachable;
  return (
    <div className={`${classes.empty} ${classes.bad}`} role="alert">
      <div className={classes.icon}>
        <IconAlertTriangle size={20} stroke={1.8} />
      </div>
      <p className={classes.title}>{away ? "Muster does not answer" : "This could not be loaded"}</p>
      <div className={classes.text}>
        {away
          ? "The server cannot be reached. Your jobs are not affected: they go on, and their logs are kept."
          : messageOf(error)}
      </div>
      {onRetry === undefined ? null : (
        <Button className={classes.action} variant="default" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
