import { NumberInput, Select } from "@mantine/core";

import { readGpus, writeGpus, type GpuChoice } from "./gpus";
import classes from "./SpecForm.module.css";

interface Props {
  value: unknown;
  /** The GPU types of the pool. */
  types: readonly string[];
  disabled: boolean;
  errorOf: (field: string) => string | undefined;
  onChange: (value: unknown) => void;
}

/** How many GPUs of which type on each node, and which type is accepted where the first one has no room. */
export function GpuFields({ value, types, disabled, errorOf, onChange }: Props) {
  const { first, second, custom } = readGpus(value);
  const off = disabled || custom;
  const known = (...chosen: string[]) => [...new Set([...types, ...chosen.filter((type) => type !== "")])];
  const ofSecond = errorOf("gpus.any_of.1");
  const ofFirst = errorOf("gpus.any_of.0") ?? (ofSecond === undefined ? errorOf("gpus") : undefined);
  const change = (one: GpuChoice, other: GpuChoice | null) => onChange(writeGpus(one, other));
  const others = known(first.type, second?.type ?? "").filter((type) => type !== first.type);

  return (
    <>
      <div className={classes.two}>
        <NumberInput
          label="GPUs"
          min={0}
          max={1024}
          allowDecimal={false}
          clampBehavior="strict"
          placeholder={custom ? "see YAML" : undefined}
          value={custom ? "" : first.count}
          error={ofFirst}
          disabled={off}
          onChange={(count) => change({ ...first, count: Number(count) }, second)}
        />
        <Select
          label="GPU type"
          data={[{ value: "", label: "Any type" }, ...known(first.type)]}
          value={first.type}
          disabled={off}
          onChange={(type) =>
            change(
              { count: Math.max(1, first.count), type: type ?? "" },
              second?.type === type ? null : second,
            )
          }
        />
      </div>
      {first.type === "" || (second === null && others.length === 0) ? null : (
        <div className={classes.two}>
          <NumberInput
            label="Or GPUs"
            min={1}
            max={1024}
            allowDecimal={false}
            clampBehavior="strict"
            value={second?.count ?? ""}
            error={ofSecond}
            disabled={off || second === null}
            onChange={(count) =>
              second === null ? undefined : change(first, { ...second, count: Math.max(1, Number(count)) })
            }
          />
          <Select
            label="Or GPU type"
            data={[{ value: "", label: "No other type" }, ...others]}
            value={second?.type ?? ""}
            disabled={off}
            onChange={(type) =>
              change(
                first,
                type === null || type === "" ? null : { count: second?.count ?? first.count, type },
              )
            }
          />
        </div>
      )}
    </>
  );
}
