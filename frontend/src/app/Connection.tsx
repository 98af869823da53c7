import { Button } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

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
    <span className={classes.live} data-status={status} role="status" title={hint}>
      <span className={classes.dot} aria-hidden="true" />
      <span className={short && status === "live" ? "sr-only" : undefined}>{label}</span>
    </span>
  );
}

/** How long the banner stays once the server answers: a button must not vanish under the hand that reaches for it. */
const STAYS_MS = 5000;

/**
 * Says across the page that the server is away, and offers to ask again.
 *
 * The queries try again by themselves within half a second, so a single lost request would show it for no longer than
 * a blink, and move all that is below it twice.
 */
export function AwayBanner() {
  const client = useQueryClient();
  const away = !useObservable(reachable);
  const [shown, setShown] = useState(away);
  if (away && !shown) setShown(true);

  useEffect(() => {
    if (away || !shown) return undefined;
    const timer = window.setTimeout(() => setShown(false), STAYS_MS);
    return () => window.clearTimeout(timer);
  }, [away, shown]);

  if (!shown) return null;
  const retry = async () => {
    await client.refetchQueries({ type: "active" });
    if (reachable.get()) setShown(false);
  };
  return (
    <div className={classes.banner} data-away={away} role={away ? "alert" : "status"}>
      <IconPlugConnectedX size={18} aria-hidden="true" />
      {away ? (
        <p>
          <strong>Muster does not answer.</strong> What you see may be old. Running jobs go on.
        </p>
      ) : (
        <p>
          <strong>Muster answers again.</strong> Retry if something here still looks old.
        </p>
      )}
      <Button size="xs" variant="default" onClick={() => void retry()}>
        Retry
      </Button>
    </div>
  );
}
