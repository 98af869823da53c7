import { Button, Tooltip } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";

import { reachable, streamStatus, useObservable, type StreamStatus } from "../api/connectivity";
import classes from "./Connection.module.css";

const WORDS: Record<StreamStatus, { label: string; hint: string }> = {
  connecting: { label: "Connecting", hint: "Opening the stream of changes" },
  live: { label: "Live", hint: "Changes appear by themselves" },
  reconnecting: {
    label: "Reconnecting",
    hint: "The stream of changes broke; asking again every few seconds",
  },
  paused: { label: "Paused", hint: "This page was hidden; it catches up when you come back" },
};

/** Whether what is shown keeps itself up to date. */
export function LiveDot({ short = false }: { short?: boolean }) {
  const status = useObservable(streamStatus);
  const { label, hint } = WORDS[status];
  return (
    <Tooltip label={hint}>
      <span className={classes.live} data-status={status} role="status">
        <span className={classes.dot} aria-hidden="true" />
        <span className={short && status === "live" ? "sr-only" : undefined}>{label}</span>
      </span>
    </Tooltip>
  );
}

/** Says across the page that the server is away, and offers to ask again. */
export function AwayBanner() {
  const client = useQueryClient();
  if (useObservable(reachable)) return null;
  return (
    <div className={classes.banner} role="alert">
      <IconPlugConnectedX size={18} aria-hidden="true" />
      <p>
        <strong>Muster does not answer.</strong> What you see may be old. Running jobs go on.
      </p>
      <Button size="xs" variant="default" onClick={() => void client.refetchQueries({ type: "active" })}>
        Retry
      </Button>
    </div>
  );
}
