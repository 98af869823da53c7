import { TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { poolsQuery, vcsQuery } from "../../api/queries";
import { vcCellsQuery } from "../../api/treeQueries";
import type { CellsWanted, PoolCells, VcCells } from "../../api/cells";
import { previewVcCells, putVcCells } from "../../api/tree";
import { SectionHead } from "../../components/Page";
import { plural } from "../../format/amount";
import { PromiseBar } from "./PromiseBar";
import { SaveBar } from "./SaveBar";
import { useDryRun } from "./useDryRun";
import { useSaving } from "./useSaving";
import classes from "./VcPage.module.css";

interface Fields {
  numbers: Record<string, string>;
  pinned: string;
}

const fieldsOf = (cells: VcCells): Fields => ({
  numbers: Object.fromEntries(cells.cells.map(({ type, number }) => [type, String(number)])),
  pinned: cells.pinned.map(({ address }) => address).join(", "),
});

const wordsIn = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== "");

function wantedOf(fields: Fields): CellsWanted {
  const numbers = Object.entries(fields.numbers).map(([type, number]): [string, number] => [
    type,
    Number(number),
  ]);
  return {
    cells: Object.fromEntries(numbers.filter(([, number]) => number > 0)),
    pinned: wordsIn(fields.pinned),
  };
}

/** The cells that a virtual cluster is promised; what would not fit, and what would lose its cells, before it is saved. */
export function CellsEditor({ id, cells, pool }: { id: number; cells: VcCells; pool: PoolCells }) {
  const client = useQueryClient();
  const [base, setBase] = useState(cells);
  const [fields, setFields] = useState(() => fieldsOf(cells));

  const wrong = Object.values(fields.numbers).some((value) => !/^\d*$/.test(value.trim()));
  const wanted = wantedOf(fields);
  const changed = wrong || JSON.stringify(wanted) !== JSON.stringify(wantedOf(fieldsOf(base)));
  const dry = useDryRun(["cells", id], changed && !wrong ? wanted : null, (asked) =>
    previewVcCells(id, asked),
  );
  const preview = dry.answer;

  const start = (from: VcCells) => {
    setBase(from);
    setFields(fieldsOf(from));
  };
  const saving = useSaving(
    () => putVcCells(id, base.version, wanted),
    async (stored) => {
      start(stored);
      await client.invalidateQueries({ queryKey: vcsQuery.queryKey });
      await client.invalidateQueries({ queryKey: poolsQuery.queryKey });
    },
    `The cells of ${cells.vc} are changed`,
  );

  return (
    <section className={`card ${classes.card}`} aria-label="Change cells">
      <SectionHead title="Change cells" />
      <div className={classes.form}>
        {pool.chains.map((chain) => (
          <fieldset key={chain.name} className={classes.fields}>
            <legend className="mono">{chain.name}</legend>
            {chain.levels.map((level) => {
              const own = base.cells.find(({ type }) => type === level.path)?.number ?? 0;
              const number = fields.numbers[level.path] ?? "";
              return (
                <div key={level.path} className={classes.level}>
                  <TextInput
                    label={level.type}
                    aria-label={`Cells of type ${level.path}`}
                    description={`${plural(level.gpus, "GPU")} each`}
                    placeholder="0"
                    inputMode="numeric"
                    value={number}
                    error={preview?.field === `cells.${level.path}` ? preview.problem : undefined}
                    onChange={({ currentTarget: { value } }) =>
                      setFields((old) => ({ ...old, numbers: { ...old.numbers, [level.path]: value } }))
                    }
                  />
                  <PromiseBar
                    label={`Cells of type ${level.path}`}
                    total={level.total}
                    others={Math.max(0, level.owned - own)}
                    wanted={Number(number) || 0}
                  />
                </div>
              );
            })}
          </fieldset>
        ))}
        <TextInput
          label="Pinned cells"
          description="Addresses of physical cells, with commas."
          value={fields.pinned}
          error={preview?.field.startsWith("pinned") === true ? preview.problem : undefined}
          onChange={({ currentTarget: { value } }) => setFields((old) => ({ ...old, pinned: value }))}
        />
        {preview !== undefined && preview.opportunistic.length > 0 ? (
          <div className={classes.losers} role="status">
            <p>
              {plural(preview.opportunistic.length, "running job")} would become opportunistic: they keep
              their GPUs, and may be preempted.
            </p>
            <ul>
              {preview.opportunistic.map(({ job, vc, why }) => (
                <li key={job}>
                  <Link to="/jobs/$jobId" params={{ jobId: String(job) }} className="link">
                    job {job} of {vc}
                  </Link>
                  : {why}
                </li>
              ))}
            </ul>
          </div>
        ) : null}
        <SaveBar
          mistake={wrong ? "Give a whole number from 0 on, or leave it empty." : ""}
          refused={dry.problem}
          unfit={preview?.problem ?? ""}
          changed={changed}
          checked={dry.checked}
          saving={saving}
          onReset={() => start(cells)}
          onReload={async () => start(await client.query({ ...vcCellsQuery(id), staleTime: 0 }))}
        />
      </div>
    </section>
  );
}
