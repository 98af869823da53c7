import { CloseButton } from "@mantine/core";
import { IconAlertCircle, IconCircleCheck } from "@tabler/icons-react";

import { useObservable } from "../api/connectivity";
import { dismiss, toasts } from "./toast";
import classes from "./Toasts.module.css";

export function Toasts() {
  const shown = useObservable(toasts);
  return (
    <div className={classes.stack} role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} className={classes.toast}>
          {toast.kind === "done" ? (
            <IconCircleCheck className={classes.icon} size={18} color="var(--succeeded)" />
          ) : (
            <IconAlertCircle className={classes.icon} size={18} color="var(--failed)" />
          )}
          <p>{toast.text}</p>
          <CloseButton size="sm" aria-label="Dismiss" onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}
