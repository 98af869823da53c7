import { Checkbox, Skeleton } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { changeNotifications } from "../../api/account";
import { messageOf } from "../../api/problem";
import { notificationsQuery } from "../../api/accountQueries";
import type { NoticeKind, NotificationChanges, Notifications as Chosen } from "../../api/types";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { toast } from "../../components/toast";
import classes from "./SettingsPage.module.css";

const KINDS: { kind: NoticeKind; label: string }[] = [
  { kind: "started", label: "A job has started" },
  { kind: "ended", label: "A job ended (any result)" },
  { kind: "failed", label: "A job failed" },
  { kind: "preempted", label: "A job was stopped for another" },
  { kind: "requeued", label: "A job failed and is tried again" },
  { kind: "screening", label: "A job's screening on a few GPUs is over" },
  { kind: "advice", label: "A job should be looked at" },
  { kind: "idle", label: "A job does not use its GPUs" },
  { kind: "kept", label: "A job failed and is kept to be looked at" },
];
const CHANNELS = [
  { channel: "mail", label: "E-mail" },
  { channel: "webhook", label: "Webhooks" },
] as const;

/** What the caller is told of, and how. */
export function Notifications() {
  const query = useQuery(notificationsQuery);
  return (
    <section className={`card ${classes.card}`} aria-label="Notifications">
      <SectionHead title="Notifications" />
      {query.isPending ? (
        <Skeleton height={180} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Choices chosen={query.data} />
      )}
    </section>
  );
}

function Choices({ chosen }: { chosen: Chosen }) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);

  const change = async (changes: NotificationChanges) => {
    setBusy(true);
    try {
      client.setQueryData(notificationsQuery.queryKey, await changeNotifications(changes));
    } catch (error) {
      toast("failed", messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  const toggled = (kinds: NoticeKind[], kind: NoticeKind): NoticeKind[] =>
    kinds.includes(kind) ? kinds.filter((each) => each !== kind) : [...kinds, kind];

  return (
    <>
      <p className={classes.sub}>
        {chosen.no_mail_because === null ? (
          <>Mail goes to {chosen.address}. </>
        ) : (
          <>{chosen.no_mail_because} </>
        )}
        A job&rsquo;s own <code>notify</code> setting overrides these.
      </p>
      <table className={classes.kinds}>
        <thead>
          <tr>
            <th scope="col">What happens</th>
            {CHANNELS.map(({ channel, label }) => (
              <th key={channel} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {KINDS.map(({ kind, label }) => (
            <tr key={kind}>
              <td>{label}</td>
              {CHANNELS.map(({ channel, label: way }) => (
                <td key={channel}>
                  <Checkbox
                    aria-label={`${label}: ${way}`}
                    checked={chosen[channel].includes(kind)}
                    disabled={busy}
                    onChange={() => void change({ [channel]: toggled(chosen[channel], kind) })}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <Checkbox
        className={classes.digest}
        label="A digest of the week by e-mail, on Mondays"
        checked={chosen.weekly_digest}
        disabled={busy}
        onChange={(event) => void change({ weekly_digest: event.currentTarget.checked })}
      />
    </>
  );
}
