import { MultiSelect, NumberInput, Select, TextInput } from "@mantine/core";

import { AfterField } from "./AfterField";
import { bind, type Bound } from "./binding";
import { kindsOf, recordOf } from "./fields";
import { PairsInput } from "./LinesInput";
import classes from "./SpecForm.module.css";

const KINDS = ["started", "ended", "failed", "preempted", "requeued", "screening", "advice", "idle", "kept"];

/** The settings that a job can do without; each shows what it is when nothing is written. */
export function MoreFields(bound: Bound) {
  const { spec, disabled, errorOf, onChange } = bound;
  const { text, number, choice, list } = bind(bound);
  const kinds = kindsOf(spec.notify);
  return (
    <details className={classes.more}>
      <summary>More settings</summary>
      <div className={classes.moreBody}>
        <div className={classes.two}>
          <Select
            label="Priority"
            description="Among the jobs of its virtual cluster"
            {...choice(["priority"], ["normal", "low", "high", "urgent"])}
          />
          <Select
            label="Screening"
            description="A first run on one or two GPUs"
            {...choice(["screening"], ["auto", "always", "never"])}
          />
        </div>
        <div className={classes.two}>
          <MultiSelect
            label="Notify me"
            data={KINDS}
            placeholder={kinds === null ? "see YAML" : kinds.length === 0 ? "by your settings" : undefined}
            value={kinds ?? []}
            error={errorOf("notify")}
            disabled={disabled || kinds === null}
            classNames={{ inputField: classes.names }}
            clearable
            hidePickedOptions
            onChange={(value) => onChange(["notify"], value.length === 0 ? undefined : value)}
          />
          <MultiSelect
            label="Stop it when its loss is"
            data={["nan", "rising"]}
            placeholder={list("stop_on").value.length === 0 ? "never" : undefined}
            classNames={{ inputField: classes.names }}
            clearable
            hidePickedOptions
            {...list("stop_on")}
          />
        </div>
        <div className={classes.two}>
          <NumberInput
            label="Automatic retries"
            placeholder="3"
            min={0}
            max={100}
            {...number("retry", "max")}
          />
          <TextInput label="Grace before the kill" placeholder="30s" {...text("checkpoint", "grace")} />
        </div>
        <div className={classes.two}>
          <TextInput label="Deadline" placeholder="none" {...text("deadline")} />
          <TextInput label="If it fails, keep it for" placeholder="not kept" {...text("keep_failed")} />
        </div>
        <div className={classes.two}>
          <AfterField after={spec.after} disabled={disabled} errorOf={errorOf} onChange={onChange} />
          <TextInput
            label="Not before"
            placeholder="at once"
            description="2h from its submission, or 2026-12-01T08:00+01:00"
            {...text("begin")}
          />
        </div>
        <div className={classes.two}>
          <Select
            label="Share its GPUs"
            description="pack: with another job"
            {...choice(["share"], ["never", "pack"])}
          />
          <TextInput
            label="GPU memory"
            description="Of each GPU that it shares"
            placeholder="all"
            {...text("gpu_memory")}
          />
        </div>
        <div className={classes.three}>
          <NumberInput
            label="Fewest GPUs"
            description="Of a job that may be resized"
            placeholder="as asked"
            min={1}
            max={1024}
            {...number("elastic", "min")}
            error={errorOf("elastic.min") ?? errorOf("elastic")}
          />
          <NumberInput
            label="Most GPUs"
            description="It must save its work when it is stopped"
            placeholder="as asked"
            min={1}
            max={1024}
            {...number("elastic", "max")}
          />
          <Select
            label="These are GPUs of"
            description="node: each of its nodes; gang: any number of nodes"
            {...choice(["elastic", "over"], ["node", "gang"])}
          />
        </div>
        <div className={classes.two}>
          <TextInput label="Working directory" placeholder="the job's own folder" {...text("workdir")} />
          <TextInput label="Shared memory" placeholder="the engine's default" {...text("shm")} />
        </div>
        <Select label="If the node loses contact" {...choice(["on_disconnect"], ["stop", "keep"])} />
        <PairsInput
          label="Tags"
          description="One a line, such as project=segmentation"
          placeholder="none"
          value={recordOf(spec.tags)}
          disabled={disabled}
          error={errorOf("tags")}
          onChange={(tags) => onChange(["tags"], tags)}
        />
      </div>
    </details>
  );
}
