import { NativeSelect, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { vcsQuery } from "../../api/queries";
import { vcQuery } from "../../api/treeQueries";
import type { Vc, VcDetail } from "../../api/types";
import { changeVc } from "../../api/tree";
import { SectionHead } from "../../components/Page";
import { changeOf, formOf, mistakeIn, refusals, type Form, type QuotaFields } from "./form";
import { PromiseBar } from "./PromiseBar";
import { SaveBar } from "./SaveBar";
import { useDryRun } from "./useDryRun";
import { useSaving } from "./useSaving";
import classes from "./VcPage.module.css";

export interface Promised {
  gpu_type: string;
  /** GPUs of the type in the pool. */
  total: number;
  /** GPUs that quotas of others promise. */
  others: number;
}

interface Props {
  vc: VcDetail;
  promised: readonly Promised[];
  /** Virtual clusters to which quota may be moved. */
  siblings: readonly Vc[];
  /** True where cells are promised in the place of numbers of GPUs. */
  inCells?: boolean;
}

const COLUMNS = [
  { key: "gpus", label: "GPUs", empty: "0" },
  { key: "borrowing", label: "Borrows at most", empty: "no limit" },
  { key: "lending", label: "Lends at most", empty: "all" },
] as const;

/** Weight, quotas and limits of a virtual cluster; what does not fit is shown while one types. */
export function QuotaEditor({ vc, promised, siblings, inCells = false }: Props) {
  const client = useQueryClient();
  const types = promised.map(({ gpu_type }) => gpu_type);
  // What is being edited: news of the virtual cluster must not change what is typed meanwhile.
  const [base, setBase] = useState(vc);
  const [form, setForm] = useState<Form>(() => formOf(vc, types));

  const mistake = mistakeIn(form);
  const change = mistake === null ? changeOf(form, base) : null;
  const dry = useDryRun(["vc", vc.id], change, (wanted) => changeVc(vc.id, wanted, true));
  const fields =
    dry.problem === undefined || change === null ? new Map<string, string>() : refusals(dry.problem, change);
  const errorOf = (field: string) => (mistake?.field === field ? mistake.message : fields.get(field));
  const columns = inCells ? COLUMNS.filter(({ key }) => key === "borrowing") : COLUMNS;
  const operator = base.may === "operate";

  const start = (from: VcDetail) => {
    setBase(from);
    setForm(formOf(from, types));
  };
  const saving = useSaving(
    () => changeVc(vc.id, change ?? { version: base.version }),
    async (stored) => {
      start(stored);
      await client.invalidateQueries({ queryKey: vcsQuery.queryKey });
    },
    `${vc.name} is changed`,
  );
  const set = (gpu_type: string, changed: Partial<QuotaFields>) =>
    setForm((old) => ({
      ...old,
      quotas: old.quotas.map((each) => (each.gpu_type === gpu_type ? { ...each, ...changed } : each)),
    }));
  const move = (changed: Partial<Form["move"]>) =>
    setForm((old) => ({ ...old, move: { ...old.move, ...changed } }));

  return (
    <section className={`card ${classes.card}`} aria-label="Change quotas">
      <SectionHead
        title={
          inCells
            ? "Change limits and weight"
            : operator
              ? "Change quotas, limits and weight"
              : "Change weight and limits, or move quota"
        }
      />
      <div className={classes.form}>
        <TextInput
          label="Weight"
          className={classes.narrow}
          inputMode="decimal"
          value={form.weight}
          error={errorOf("weight")}
          onChange={({ currentTarget: { value } }) => setForm((old) => ({ ...old, weight: value }))}
        />
        {form.quotas.map((row) => {
          const pool = promised.find(({ gpu_type }) => gpu_type === row.gpu_type);
          return (
            <fieldset key={row.gpu_type} className={classes.fields}>
              <legend className="mono">{row.gpu_type}</legend>
              <div className={classes.inputs}>
                {columns.map(({ key, label, empty }) => (
                  <TextInput
                    key={key}
                    label={label}
                    aria-label={`${row.gpu_type}: ${label}`}
                    placeholder={empty}
                    inputMode="numeric"
                    value={row[key]}
                    error={errorOf(`${row.gpu_type}.${key}`)}
                    onChange={({ currentTarget: { value } }) => set(row.gpu_type, { [key]: value })}
                  />
                ))}
              </div>
              {operator && pool !== undefined && !inCells ? (
                <PromiseBar label={row.gpu_type} {...pool} wanted={Number(row.gpus) || 0} />
              ) : null}
            </fieldset>
          );
        })}
        {inCells || siblings.length === 0 || form.quotas.length === 0 ? null : (
          <fieldset className={classes.fields}>
            <legend>Move quota to another virtual cluster of {vc.tenant}</legend>
            <div className={classes.inputs}>
              <NativeSelect
                label="To"
                data={[{ value: "", label: "–" }, ...siblings.map(({ name }) => name)]}
                value={form.move.to}
                onChange={({ currentTarget: { value } }) => move({ to: value })}
              />
              <NativeSelect
                label="GPU type"
                data={form.quotas.map(({ gpu_type }) => gpu_type)}
                value={form.move.gpu_type}
                onChange={({ currentTarget: { value } }) => move({ gpu_type: value })}
              />
              <TextInput
                label="GPUs to move"
                inputMode="numeric"
                value={form.move.gpus}
                error={fields.get("move.gpus") ?? fields.get("move.to") ?? fields.get("move")}
                onChange={({ currentTarget: { value } }) => move({ gpus: value })}
              />
            </div>
          </fieldset>
        )}
        <SaveBar
          mistake={mistake?.message ?? ""}
          refused={dry.problem}
          changed={change !== null || mistake !== null}
          checked={dry.checked}
          saving={saving}
          onReset={() => start(vc)}
          onReload={async () => start(await client.query({ ...vcQuery(vc.id), staleTime: 0 }))}
        />
      </div>
    </section>
  );
}
