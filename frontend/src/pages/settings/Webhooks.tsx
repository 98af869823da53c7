import { Button, Skeleton, TextInput } from "@mantine/core";
import { IconPlus, IconWebhook } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, useState } from "react";

import { createWebhook, removeWebhook, testWebhook } from "../../api/account";
import { loadPart } from "../../api/parts";
import { messageOf } from "../../api/problem";
import { webhooksQuery } from "../../api/accountQueries";
import type { Webhook } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Empty, Failed } from "../../components/Notice";
import { OnceOpened } from "../../components/OnceOpened";
import { SectionHead } from "../../components/Page";
import { Chip, type Tone } from "../../components/StateChip";
import { Ago } from "../../components/Time";
import { toast } from "../../components/toast";
import classes from "./SettingsPage.module.css";

const SecretDialog = lazy(() => loadPart(() => import("./SecretDialog")));

const STATES: Record<Webhook["state"], { tone: Tone; label: string }> = {
  working: { tone: "succeeded", label: "Working" },
  failing: { tone: "queued", label: "Failing" },
  disabled: { tone: "failed", label: "Disabled" },
};
const LOOK_EVERY_MS = 1500;

/** Which try a ping was sent after: once the last try is another one, its result is there. */
type Pinged = ReadonlyMap<number, string | null>;

/** The caller's webhooks: made here, with a secret that is shown once, tried and removed here. */
export function Webhooks() {
  const client = useQueryClient();
  const [pinged, setPinged] = useState<Pinged>(new Map());
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const query = useQuery({
    ...webhooksQuery,
    refetchInterval: ({ state }) =>
      (state.data?.results ?? []).some((each) => waits(each, pinged)) ? LOOK_EVERY_MS : false,
  });
  const refresh = () => client.invalidateQueries({ queryKey: webhooksQuery.queryKey });
  const webhooks = query.data?.results ?? [];

  const test = async (webhook: Webhook) => {
    try {
      await testWebhook(webhook.id);
      setPinged((old) => new Map(old).set(webhook.id, webhook.last_try_at));
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await refresh();
  };
  const remove = async (webhook: Webhook) => {
    try {
      await removeWebhook(webhook.id);
      toast("done", "The webhook is removed");
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await refresh();
  };

  return (
    <section className={`card ${classes.card}`} aria-label="Webhooks">
      <SectionHead title="Webhooks">
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlus size={14} />}
          onClick={() => setAdding(true)}
        >
          New webhook
        </Button>
      </SectionHead>
      <p className={classes.sub}>Addresses of yours to which notices are posted as JSON, with a signature.</p>
      {query.isPending ? (
        <Skeleton height={54} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : webhooks.length === 0 ? (
        <Empty icon={<IconWebhook size={20} />} title="No webhooks">
          Make one to have a program of yours hear of your jobs.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {webhooks.map((webhook) => (
            <WebhookRow
              key={webhook.id}
              webhook={webhook}
              waiting={waits(webhook, pinged)}
              onTest={() => void test(webhook)}
              onRemove={() => setRemoving(webhook)}
            />
          ))}
        </ul>
      )}
      <AddWebhook opened={adding} onClose={() => setAdding(false)} onAdded={refresh} />
      <Confirm
        opened={removing !== null}
        title="Remove this webhook?"
        yes="Remove webhook"
        onClose={() => setRemoving(null)}
        onYes={async () => {
          if (removing !== null) await remove(removing);
        }}
      >
        Nothing is posted to {removing?.url ?? ""} any more, and what waits for it is not sent.
      </Confirm>
    </section>
  );
}

const waits = (webhook: Webhook, pinged: Pinged): boolean =>
  pinged.has(webhook.id) && pinged.get(webhook.id) === webhook.last_try_at;

interface RowProps {
  webhook: Webhook;
  waiting: boolean;
  onTest: () => void;
  onRemove: () => void;
}

function WebhookRow({ webhook, waiting, onTest, onRemove }: RowProps) {
  const { tone, label } = STATES[webhook.state];
  return (
    <li className={classes.entry}>
      <div style={{ minWidth: 0 }}>
        <p className={`${classes.entryName} truncate`} title={webhook.url}>
          {webhook.url}
        </p>
        <p className={classes.meta}>
          <Chip tone={tone}>{label}</Chip>
          <span className={webhook.state === "working" ? undefined : classes.expired}>
            {webhook.reason ?? webhook.last_result ?? "nothing was sent yet"}
          </span>
          {webhook.last_try_at === null ? null : (
            <span>
              last try <Ago at={webhook.last_try_at} />
            </span>
          )}
          {webhook.state === "working" || webhook.last_success_at === null ? null : (
            <span>
              last went well <Ago at={webhook.last_success_at} />
            </span>
          )}
        </p>
      </div>
      <div className={classes.actions}>
        <Button
          size="xs"
          variant="default"
          loading={waiting}
          onClick={onTest}
          aria-label={`Test ${webhook.url}`}
        >
          Test
        </Button>
        <Button size="xs" variant="default" onClick={onRemove} aria-label={`Remove ${webhook.url}`}>
          Remove
        </Button>
      </div>
    </li>
  );
}

interface AddProps {
  opened: boolean;
  onClose: () => void;
  onAdded: () => Promise<void>;
}

function AddWebhook({ opened, onClose, onAdded }: AddProps) {
  const [url, setUrl] = useState("");

  return (
    <OnceOpened opened={opened}>
      <SecretDialog
        opened={opened}
        onClose={() => {
          onClose();
          setUrl("");
        }}
        title="New webhook"
        madeTitle="Its secret"
        word="Secret"
        note="Calls are signed with this secret. "
        yes="Add webhook"
        ready={url.trim() !== ""}
        make={async () => {
          const made = await createWebhook(url.trim());
          void onAdded();
          return made.secret;
        }}
      >
        {(refusal) => (
          <TextInput
            label="URL"
            placeholder="https://hooks.example.org/muster"
            data-autofocus
            required
            withAsterisk={false}
            maxLength={1000}
            value={url}
            error={refusal}
            onChange={(event) => setUrl(event.currentTarget.value)}
          />
        )}
      </SecretDialog>
    </OnceOpened>
  );
}
