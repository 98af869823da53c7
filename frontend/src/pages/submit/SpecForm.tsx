import { NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { poolsQuery, vcsQuery } from "../../api/queries";
import type { DryRun, Spec } from "../../api/types";
import { useMe } from "../../app/me";
import { mebibytes } from "../../format/amount";
import { bind } from "./binding";
import type { Code } from "./code/useCode";
import { CodeDrop } from "./CodeDrop";
import { recordOf, textOf } from "./fields";
import { GpuFields } from "./GpuFields";
import { ListInput, PairsInput } from "./LinesInput";
import { MoreFields } from "./MoreFields";
import { NodeFields } from "./NodeFields";
import { sizeWords } from "./sizes";
import classes from "./SpecForm.module.css";
import { SweepFields } from "./SweepFields";

interface Props {
  spec: Spec;
  code: Code;
  /** What the dry run said last; its sizes show what empty fields become. */
  result: DryRun | undefined;
  /** Why the YAML cannot be read, while it cannot: the form waits for that. */
  unreadable: string | null;
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

/** The fields of a job, each with what it is when it stays empty; the YAML beside it has all keys. */
export function SpecForm({ spec: values, code, result, unreadable, errorOf, onChange }: Props) {
  const off = unreadable !== null;
  const bound = { spec: values, disabled: off, errorOf, onChange };
  const { text, number, list } = bind(bound);
  const vc = textOf(values.vc);
  const clusters = useVirtualClusters(vc);
  const [size] = result?.sizes ?? [];

  return (
    <div className={classes.form}>
      {unreadable === null ? null : (
        <p className={classes.unreadable} role="status">
          <IconAlertTriangle size={16} aria-hidden="true" />
          <span>The fields wait until the YAML can be read. {unreadable}.</span>
        </p>
      )}
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
          placeholder="a shell command, such as python train.py"
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
        <TextInput
          label="Container image"
          placeholder="none: it runs with the programs of its node"
          {...text("image")}
        />
        <ListInput
          label="Outputs"
          description="Files of the working folder to keep, one pattern a line, such as results/** or *.csv"
          placeholder="none: the working folder is removed when the job ends"
          {...list("outputs")}
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
          <NumberInput label="Nodes" min={1} placeholder="1" {...number("nodes")} />
          <NumberInput
            label="CPUs"
            min={1}
            placeholder={size === undefined ? "by GPUs" : String(size.cpus)}
            {...number("cpus")}
          />
          <TextInput
            label="Memory"
            placeholder={size === undefined ? "by GPUs" : mebibytes(size.memory_mib)}
            {...text("memory")}
          />
        </div>
        {result === undefined ? null : (
          <p className={classes.hint}>On each node: {sizeWords(result.sizes)}.</p>
        )}
        <NodeFields
          nodesIn={values.nodes_in}
          excluded={values.exclude_nodes}
          pool={clusters.pool}
          disabled={off}
          errorOf={errorOf}
          onChange={(field, names) => onChange([field], names)}
        />
        <div className={classes.two}>
          <TextInput label="Time limit" placeholder="none" {...text("time")} />
          <TextInput label="Expected run time" placeholder="by your last jobs" {...text("expected")} />
        </div>
      </Group>
      <Group title="Environment">
        <PairsInput
          label="Variables"
          description="One a line, such as EPOCHS=90"
          placeholder="none"
          value={recordOf(values.env)}
          disabled={off}
          error={errorOf("env")}
          onChange={(env) => onChange(["env"], env)}
        />
        <ListInput
          label="Mounts"
          description="Volumes in a container, one a line, such as data:/data:ro"
          placeholder="none"
          {...list("mounts")}
        />
      </Group>
      <Group title="Sweep" hint="One job for each choice of parameters.">
        <SweepFields value={values.sweep} disabled={off} errorOf={errorOf} onChange={onChange} />
      </Group>
      <MoreFields {...bound} />
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
