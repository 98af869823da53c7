import { Button, Skeleton } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { endOtherSessions, endSession } from "../../api/account";
import { messageOf } from "../../api/problem";
import { sessionsQuery } from "../../api/accountQueries";
import type { Session } from "../../api/types";
import { useSignOut } from "../../app/signOut";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { Label } from "../../components/StateChip";
import { Ago } from "../../components/Time";
import { toast } from "../../components/toast";
import { browserName } from "./browserName";
import classes from "./SettingsPage.module.css";

/** The browsers in which the caller is signed in, each with a button that ends its session. */
export function Sessions() {
  const client = useQueryClient();
  const query = useQuery(sessionsQuery);
  const signOut = useSignOut();
  const [busy, setBusy] = useState(false);
  const sessions = query.data?.results ?? [];

  const end = async (act: () => Promise<void>, done: string) => {
    setBusy(true);
    try {
      await act();
      toast("done", done);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: sessionsQuery.queryKey });
    setBusy(false);
  };
  const endOne = (session: Session) =>
    session.current
      ? signOut()
      : end(() => endSession(session.id), `${browserName(session.user_agent)} is signed out`);

  return (
    <section className={`card ${classes.card}`} aria-label="Sessions">
      <SectionHead title="Sessions">
        {sessions.some((session) => !session.current) ? (
          <Button
            size="xs"
            variant="default"
            disabled={busy}
            onClick={() => void end(endOtherSessions, "All other browsers are signed out")}
          >
            Sign out everywhere else
          </Button>
        ) : null}
      </SectionHead>
      <p className={classes.sub}>
        Where you are signed in. If you do not know one of them, sign it out and change your password.
      </p>
      {query.isPending ? (
        <Skeleton height={54} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <ul className={classes.list}>
          {sessions.map((session) => (
            <SessionRow key={session.id} session={session} busy={busy} onEnd={() => void endOne(session)} />
          ))}
        </ul>
      )}
    </section>
  );
}

function SessionRow({ session, busy, onEnd }: { session: Session; busy: boolean; onEnd: () => void }) {
  const name = browserName(session.user_agent);
  const address = session.address ?? "unknown address";
  return (
    <li className={classes.entry}>
      <div style={{ minWidth: 0 }}>
        <p className={`${classes.entryName} ${classes.labels}`}>
          <span className="truncate" title={session.user_agent}>
            {name}
          </span>
          {session.current ? <Label>this browser</Label> : null}
        </p>
        <p className={classes.meta}>
          <span className="mono">{address}</span>
          <span>
            used <Ago at={session.last_used_at} />
          </span>
          <span>
            signed in <Ago at={session.created_at} />
          </span>
        </p>
      </div>
      <Button
        size="xs"
        variant="default"
        disabled={busy}
        onClick={onEnd}
        aria-label={`Sign out ${name} at ${address}`}
      >
        Sign out
      </Button>
    </li>
  );
}
