import { ActionIcon, Button, NativeSelect, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { tenantsQuery } from "../../api/treeQueries";
import type { Tenant, TenantChange } from "../../api/types";
import { changeTenant } from "../../api/tree";
import { SectionHead } from "../../components/Page";
import { SaveBar } from "../vcs/SaveBar";
import { useDryRun } from "../vcs/useDryRun";
import { useSaving } from "../vcs/useSaving";
import { capOf, fieldsOf, LIMITS, mistakeIn, NO_LIMITS, whomWords, type CapFields, type Limit } from "./caps";
import classes from "./TenantPage.module.css";

/** The caps of a tenant's members; who may not change them reads them. */
export function CapsCard({ tenant }: { tenant: Tenant }) {
  const client = useQueryClient();
  const [base, setBase] = useState(tenant);
  const [caps, setCaps] = useState<CapFields[]>(() => tenant.caps.map(fieldsOf));
  const [weight, setWeight] = useState(String(tenant.weight));

  const readOnly = base.may === "read";
  const operator = base.may === "operate";
  const mistake =
    mistakeIn(caps) ?? (Number(weight) > 0 ? null : { field: "weight", message: "Give a number above 0." });
  const change = mistake === null ? changeOf(caps, weight, base) : null;
  const dry = useDryRun(["tenant", tenant.id], change, (wanted) => changeTenant(tenant.id, wanted, true));
  const fields = new Map([
    ...(dry.problem?.fields ?? []).map(({ field, message }): [string, string] => [field, message]),
    ...(mistake === null ? [] : [[mistake.field, mistake.message] as [string, string]]),
  ]);

  const start = (from: Tenant) => {
    setBase(from);
    setCaps(from.caps.map(fieldsOf));
    setWeight(String(from.weight));
  };
  const saving = useSaving(
    () => changeTenant(tenant.id, change ?? { version: base.version }),
    async (stored) => {
      start(stored);
      await client.invalidateQueries({ queryKey: tenantsQuery.queryKey });
    },
    `${tenant.name} is changed`,
  );
  const setCap = (index: number, changed: Partial<CapFields>) =>
    setCaps((old) => old.map((cap, at) => (at === index ? { ...cap, ...changed } : cap)));
  const whoms = [
    { value: "", label: "Every member" },
    { value: "role:member", label: "Members" },
    { value: "role:manager", label: "Managers" },
    ...tenant.members.map(({ username }) => ({ value: `user:${username}`, label: username })),
  ];

  return (
    <section className={`card ${classes.card}`} aria-label="Caps">
      <SectionHead title="Caps" term="cap">
        {readOnly ? null : (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconPlus size={14} />}
            onClick={() => setCaps((old) => [...old, { whom: "", limits: NO_LIMITS }])}
          >
            Add a cap
          </Button>
        )}
      </SectionHead>
      <p className={classes.sub}>
        What one user may have in all pools. Of several caps the one of the user counts, then the one of the
        role, then the one of every member.
      </p>
      {operator ? (
        <TextInput
          label="Weight of the tenant"
          className={classes.narrow}
          inputMode="decimal"
          value={weight}
          error={fields.get("weight")}
          onChange={({ currentTarget: { value } }) => setWeight(value)}
        />
      ) : null}
      {caps.length === 0 ? <p className={classes.faint}>No caps: quotas alone limit each user.</p> : null}
      {readOnly ? (
        <ul className={classes.list}>
          {caps.map((cap) => (
            <li key={cap.whom}>
              <strong>{whomWords(cap.whom)}</strong> {limitsWords(cap)}
            </li>
          ))}
        </ul>
      ) : (
        caps.map((cap, index) => (
          <fieldset key={index} className={classes.fields}>
            <legend>{whomWords(cap.whom)}</legend>
            <div className={classes.inputs}>
              <NativeSelect
                label="For"
                data={whoms}
                value={cap.whom}
                error={fields.get(`caps.${index}.user`) ?? fields.get(`caps.${index}`)}
                onChange={({ currentTarget: { value } }) => setCap(index, { whom: value })}
              />
              {LIMITS.map(({ key, label }) => (
                <TextInput
                  key={key}
                  label={label}
                  inputMode="decimal"
                  placeholder="no cap"
                  value={cap.limits[key]}
                  error={fields.get(`caps.${index}.${key}`)}
                  onChange={({ currentTarget: { value } }) =>
                    setCap(index, { limits: { ...cap.limits, [key]: value } satisfies Record<Limit, string> })
                  }
                />
              ))}
            </div>
            <ActionIcon
              className={classes.remove}
              aria-label={`Remove the cap of ${whomWords(cap.whom)}`}
              onClick={() => setCaps((old) => old.filter((_, at) => at !== index))}
            >
              <IconTrash size={16} />
            </ActionIcon>
          </fieldset>
        ))
      )}
      {readOnly ? null : (
        <SaveBar
          mistake={mistake?.message ?? ""}
          refused={dry.problem}
          changed={change !== null || mistake !== null}
          checked={dry.checked}
          saving={saving}
          onReset={() => start(tenant)}
          onReload={async () => {
            const { results } = await client.query({ ...tenantsQuery, staleTime: 0 });
            start(results.find(({ id }) => id === tenant.id) ?? tenant);
          }}
        />
      )}
    </section>
  );
}

function changeOf(caps: readonly CapFields[], weight: string, base: Tenant): TenantChange | null {
  const change: TenantChange = { version: base.version };
  if (Number(weight) !== base.weight) change.weight = Number(weight);
  const wanted = caps.map(capOf);
  if (JSON.stringify(wanted) !== JSON.stringify(base.caps.map(fieldsOf).map(capOf))) change.caps = wanted;
  return Object.keys(change).length === 1 ? null : change;
}

function limitsWords({ limits }: CapFields): string {
  const words = LIMITS.filter(({ key }) => limits[key] !== "").map(
    ({ key, label }) => `${label}: ${limits[key]}`,
  );
  return words.length === 0 ? "no limit" : words.join(" · ");
}
