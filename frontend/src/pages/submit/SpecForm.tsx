import { NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { poolsQuery, vcsQuery } from "../../api/queries";
import type { Spec } from "../../api/types";
import { useMe } from "../../app/me";
import type { Code } from "./code/useCode";
import { CodeDrop } from "./CodeDrop";
import { numberOf, readLines, recordOf, textOf, writeLines } from "./fields";
import { GpuFields } from "./GpuFields";
import { NodeFields } from "./NodeFields";
import classes from "./SpecForm.module.css";
import { SweepFields } from "./SweepFields";

interface Props {
  spec: Spec;
  code: Code;
  /** While the YAML cannot be read the form waits. */
  disabled: boolean;
  /** What the server has against a field, by its name. */
  errorOf: (field: string) => string | undefined;
  onChange: (path: readonly string[], value: unknown) => void;
}

function useVirtualClusters(current: string) {
  const me = useMe();
  const vcs = useQuery(vcsQuery).data?.results ?? [];
  const names = new Set([...me.vcs, ...(current === "" ? [] : [current])]);
  const chosen = vcs.find((vc) => vc.name === (current === "" ? me.default_vc : current));
  const pools = useQuery(poolsQuery).data?.results ?? [];
  const types = pools
    .filter((pool) => chosen === undefined || pool.name === chosen.pool)
    .flatMap((pool) => pool.gpus.map((gpu) => gpu.type));
  return {
    names: [...names].sort(),
    fallback: me.default_vc,
    types: [...new Set(types)].sort(),
    pool: chosen?.pool,
  };
}

/** The fields that most jobs need; the YAML beside it has all of them. */
export function SpecForm({ spec: values, code, disabled, errorOf, onChange }: Props) {
  const off = disabled;
  const vc = textOf(values.vc);
  const clusters = useVirtualClusters(vc);
  const retry = recordOf(values.retry);
  const text = (field: string) => ({
    value: textOf(values[field]),
    error: errorOf(field),
    disabled: off,
    onChange: (event: { currentTarget: { value: string } }) => onChange([field], event.currentTarget.value),
  });
  const number = (field: string) => ({
    value: numberOf(values[field]),
    error: errorOf(field),
    disabled: off,
    onChange: (value: number | string) => onChange([field], value === "" ? undefined : Number(value)),
  });
  const elastic = recordOf(values.elastic);
  const size = (end: "min" | "max") => ({
    min: 1,
    max: 1024,
    allowDecimal: false,
    value: elastic[end] === undefined || elastic[end] === "" ? "" : Number(elastic[end]),
    error: errorOf(`elastic.${end}`) ?? (end === "min" ? errorOf("elastic") : undefined),
    disabled: off,
    onChange: (value: number | string) =>
      onChange(["elastic", end], value === "" ? undefined : Number(value)),
  });
  const choice = (field: string, fallback: string) => ({
    value: textOf(values[field]) === "" ? fallback : textOf(values[field]),
    error: errorOf(field),
    disabled: off,
    onChange: (value: string | null) => onChange([field], value === fallback ? undefined : value),
  });

  return (
    <div className={classes.form}>
      <Group title="What runs">
        <div className={classes.two}>
          <TextInput label="Name" placeholder="from the command" {...text("name")} />
          <Select
            label="Virtual cluster"
            data={[
              { value: "", label: clusters.fallback === null ? "Default" : `Default (${clusters.fallback})` },
              ...clusters.names,
            ]}
            value={vc}
            error={errorOf("vc")}
            disabled={off}
            onChange={(value) => onChange(["vc"], value ?? "")}
          />
        </div>
        <Textarea
          label="Command"
          placeholder="python train.py"
          autosize
          minRows={3}
          maxRows={14}
          classNames={{ input: classes.code }}
          spellCheck={false}
          {...text("command")}
        />
        <CodeDrop
          digest={recordOf(values.code).upload ?? ""}
          code={code}
          disabled={off}
          error={errorOf("code")}
          onRemove={() => onChange(["code"], undefined)}
        />
      </Group>
      <Group title="Resources" hint="Per node. With several nodes, all start together or none does.">
        <GpuFields
          value={values.gpus}
          types={clusters.types}
          disabled={off}
          errorOf={errorOf}
          onChange={(gpus) => onChange(["gpus"], gpus)}
        />
        <div className={classes.three}>
          <NumberInput label="Nodes" min={1} allowDecimal={false} placeholder="1" {...number("nodes")} />
          <NumberInput label="CPUs" min={1} allowDecimal={false} placeholder="by GPUs" {...number("cpus")} />
          <TextInput label="Memory" placeholder="64GiB" {...text("memory")} />
        </div>
        <NodeFields
          nodesIn={values.nodes_in}
          excluded={values.exclude_nodes}
          pool={clusters.pool}
          disabled={off}
          errorOf={errorOf}
          onChange={(field, names) => onChange([field], names)}
        />
        <div className={classes.two}>
          <TextInput label="Time limit" placeholder="24h" {...text("time")} />
          <TextInput label="Expected run time" placeholder="by your last jobs" {...text("expected")} />
        </div>
      </Group>
      <Group title="Environment">
        <LinesInput
          label="Variables"
          placeholder={"NCCL_DEBUG=WARN\nEPOCHS=90"}
          values={recordOf(values.env)}
          disabled={off}
          error={errorOf("env")}
          onChange={(env) => onChange(["env"], env)}
        />
      </Group>
      <Group title="Sweep" hint="One job for each choice of parameters.">
        <SweepFields value={values.sweep} disabled={off} errorOf={errorOf} onChange={onChange} />
      </Group>
      <details className={classes.more}>
        <summary>More settings</summary>
        <div className={classes.moreBody}>
          <div className={classes.two}>
            <Select
              label="Priority"
              data={["low", "normal", "high", "urgent"]}
              {...choice("priority", "normal")}
            />
            <Select
              label="If the node loses contact"
              data={["stop", "keep"]}
              {...choice("on_disconnect", "stop")}
            />
          </div>
          <div className={classes.two}>
            <NumberInput
              label="Automatic retries"
              placeholder="3"
              min={0}
              max={100}
              allowDecimal={false}
              value={retry.max === undefined || retry.max === "" ? "" : Number(retry.max)}
              error={errorOf("retry.max")}
              disabled={off}
              onChange={(value) => onChange(["retry", "max"], value === "" ? undefined : Number(value))}
            />
            <TextInput
              label="Grace before the kill"
              placeholder="30s"
              value={recordOf(values.checkpoint).grace ?? ""}
              error={errorOf("checkpoint.grace")}
              disabled={off}
              onChange={(event) => onChange(["checkpoint", "grace"], event.currentTarget.value)}
            />
          </div>
          <div className={classes.two}>
            <NumberInput
              label="Fewest GPUs"
              description="Of a job that may be resized"
              placeholder="as asked"
              {...size("min")}
            />
            <NumberInput
              label="Most GPUs"
              description="It must save its work when it is stopped"
              placeholder="as asked"
              {...size("max")}
            />
          </div>
          <TextInput label="Working directory" placeholder="/workspace" {...text("workdir")} />
          <LinesInput
            label="Tags"
            placeholder="project=segmentation"
            values={recordOf(values.tags)}
            disabled={off}
            error={errorOf("tags")}
            onChange={(tags) => onChange(["tags"], tags)}
          />
        </div>
      </details>
    </div>
  );
}

function Group({ title, hint, children }: { title: string; hint?: string; children: ReactNode }) {
  return (
    <section className={classes.group} aria-label={title}>
      <h2 className={classes.groupTitle}>
        {title}
        {hint === undefined ? null : <span className={classes.hint}>{hint}</span>}
      </h2>
      {children}
    </section>
  );
}

interface LinesProps {
  label: string;
  placeholder: string;
  values: Record<string, string>;
  disabled: boolean;
  error: string | undefined;
  onChange: (values: Record<string, string>) => void;
}

/** Pairs as lines of text. What is being typed stays as it is; a change from elsewhere replaces it. */
function LinesInput({ label, placeholder, values, disabled, error, onChange }: LinesProps) {
  const written = writeLines(values);
  const [draft, setDraft] = useState(written);
  const shown = writeLines(readLines(draft)) === written ? draft : written;
  return (
    <Textarea
      label={label}
      placeholder={placeholder}
      autosize
      minRows={2}
      maxRows={10}
      classNames={{ input: classes.code }}
      spellCheck={false}
      value={shown}
      disabled={disabled}
      error={error}
      onChange={(event) => {
        setDraft(event.currentTarget.value);
        onChange(readLines(event.currentTarget.value));
      }}
    />
  );
}
