import { Button, Checkbox, NativeSelect, Skeleton, TextInput } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, useState } from "react";

import { createToken, revokeToken, setTokenSurvival } from "../../api/account";
import { loadPart } from "../../api/parts";
import { messageOf } from "../../api/problem";
import { tokensQuery } from "../../api/accountQueries";
import type { Token, TokenScope } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Empty, Failed } from "../../components/Notice";
import { useNow } from "../../components/now";
import { OnceOpened } from "../../components/OnceOpened";
import { SectionHead } from "../../components/Page";
import { Ago, Time } from "../../components/Time";
import { toast } from "../../components/toast";
import classes from "./SettingsPage.module.css";

const SecretDialog = lazy(() => loadPart(() => import("./SecretDialog")));

const LIFETIMES = [
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
  { value: "365d", label: "1 year" },
];

const SCOPES: { value: TokenScope; label: string }[] = [
  { value: "read", label: "Read everything you can see" },
  { value: "submit", label: "Submit and act on your own jobs" },
  { value: "manage", label: "Manage your tenants and your account" },
  { value: "admin", label: "Operate the cluster" },
];
const USUAL: TokenScope[] = ["read", "submit"];

/** The caller's API tokens: made here, shown once, revoked here. */
export function Tokens() {
  const client = useQueryClient();
  const query = useQuery(tokensQuery);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const refresh = () => client.invalidateQueries({ queryKey: tokensQuery.queryKey });
  const tokens = query.data?.results ?? [];

  const revoke = async (token: Token) => {
    try {
      await revokeToken(token.id);
      toast("done", `Token ${token.name} is revoked`);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await refresh();
  };

  const setSurvives = async (token: Token, survives: boolean) => {
    try {
      await setTokenSurvival(token.id, survives);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await refresh();
  };

  return (
    <section className={`card ${classes.card}`} aria-label="API tokens">
      <SectionHead title="API tokens">
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlus size={14} />}
          onClick={() => setCreating(true)}
        >
          New token
        </Button>
      </SectionHead>
      <p className={classes.sub}>
        For the muster command and for scripts. A token can do what its scopes and your roles allow.{" "}
        <a className="link" href="/api/v1/docs">
          REST API documentation
        </a>
      </p>
      {query.isPending ? (
        <Skeleton height={54} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : tokens.length === 0 ? (
        <Empty icon={<IconKey size={20} />} title="No tokens">
          Make one to use the command line or the REST API.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {tokens.map((token) => (
            <TokenRow
              key={token.id}
              token={token}
              onSurvives={(survives) => setSurvives(token, survives)}
              onRevoke={() => setRevoking(token)}
            />
          ))}
        </ul>
      )}
      <CreateToken opened={creating} onClose={() => setCreating(false)} onCreated={refresh} />
      <Confirm
        opened={revoking !== null}
        title={`Revoke ${revoking?.name ?? ""}?`}
        yes="Revoke token"
        onClose={() => setRevoking(null)}
        onYes={async () => {
          if (revoking !== null) await revoke(revoking);
        }}
      >
        Whatever uses it is refused from now on.
      </Confirm>
    </section>
  );
}

interface RowProps {
  token: Token;
  onSurvives: (survives: boolean) => Promise<void>;
  onRevoke: () => void;
}

function TokenRow({ token, onSurvives, onRevoke }: RowProps) {
  const now = useNow();
  const [busy, setBusy] = useState(false);
  const expired = new Date(token.expires_at).getTime() < now;
  return (
    <li className={classes.entry}>
      <div style={{ minWidth: 0 }}>
        <p className={`${classes.entryName} truncate`}>{token.name}</p>
        <p className={classes.meta}>
          <span className="mono">{token.prefix}…</span>
          <span>{token.scopes.join(", ")}</span>
          <span className={expired ? classes.expired : undefined}>
            {expired ? "expired" : "expires"} <Time at={token.expires_at} form="date" />
          </span>
          <span>
            {token.last_used_at === null ? "never used" : <>used {<Ago at={token.last_used_at} />}</>}
          </span>
        </p>
        <Checkbox
          size="xs"
          mt={6}
          label="Keep it when your password changes"
          aria-label={`Keep ${token.name} when your password changes`}
          checked={token.survives_password_change}
          disabled={busy}
          onChange={(event) => {
            setBusy(true);
            void onSurvives(event.currentTarget.checked).finally(() => setBusy(false));
          }}
        />
      </div>
      <Button size="xs" variant="default" onClick={onRevoke} aria-label={`Revoke ${token.name}`}>
        Revoke
      </Button>
    </li>
  );
}

interface CreateProps {
  opened: boolean;
  onClose: () => void;
  onCreated: () => Promise<void>;
}

function CreateToken({ opened, onClose, onCreated }: CreateProps) {
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState("30d");
  const [scopes, setScopes] = useState(USUAL);
  const [survives, setSurvives] = useState(false);

  return (
    <OnceOpened opened={opened}>
      <SecretDialog
        opened={opened}
        onClose={() => {
          onClose();
          setName("");
          setScopes(USUAL);
          setSurvives(false);
        }}
        title="New API token"
        madeTitle="Your new token"
        word="Token"
        yes="Create token"
        ready={name.trim() !== ""}
        make={async () => {
          const made = await createToken({
            name: name.trim(),
            expires_in: lifetime,
            scopes,
            survives_password_change: survives,
          });
          void onCreated();
          return made.token;
        }}
      >
        {(refusal) => (
          <>
            <TextInput
              label="Name"
              placeholder="laptop"
              data-autofocus
              required
              withAsterisk={false}
              maxLength={100}
              value={name}
              error={refusal}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <NativeSelect
              label="Expires after"
              data={LIFETIMES}
              value={lifetime}
              onChange={(event) => setLifetime(event.currentTarget.value)}
            />
            <Checkbox.Group
              label="Scopes"
              value={scopes}
              onChange={(chosen) =>
                setScopes(SCOPES.map((scope) => scope.value).filter((scope) => chosen.includes(scope)))
              }
            >
              {SCOPES.map(({ value, label }) => (
                <Checkbox key={value} value={value} label={label} disabled={value === "read"} mt={6} />
              ))}
            </Checkbox.Group>
            <Checkbox
              label="Keep it when your password changes"
              checked={survives}
              onChange={(event) => setSurvives(event.currentTarget.checked)}
            />
          </>
        )}
      </SecretDialog>
    </OnceOpened>
  );
}
