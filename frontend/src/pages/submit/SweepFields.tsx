import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { IconArrowsShuffle } from "@tabler/icons-react";

import type { Spec } from "../../api/types";
import { numberOf, textOf } from "./fields";
import { ParamFields } from "./ParamFields";
import classes from "./SpecForm.module.css";

/** The sweep that a job becomes at first; its metric and its parameters are for its user to name. */
export const FIRST_SWEEP = { method: "random", members: 16, parallel: 8 };

const FIRST_RUNGS = { first: 1, last: 27, keep: 3 };

interface Props {
  value: unknown;
  disabled: boolean;
  errorOf: (field: string) => string | undefined;
  onChange: (path: readonly string[], value: unknown) => void;
}

/** What the members of a sweep vary, how many there are and how they are compared. */
export function SweepFields({ value, disabled, errorOf, onChange }: Props) {
  if (value === undefined || value === null) {
    return (
      <Button
        className={classes.alone}
        variant="default"
        disabled={disabled}
        leftSection={<IconArrowsShuffle size={16} />}
        onClick={() => onChange(["sweep"], FIRST_SWEEP)}
      >
        Make it a sweep
      </Button>
    );
  }
  const sweep: Spec = typeof value === "object" && !Array.isArray(value) ? (value as Spec) : {};
  const method = textOf(sweep.method);
  const number = (field: string) => ({
    min: 1,
    max: 1000,
    allowDecimal: false,
    value: numberOf(sweep[field]),
    error: errorOf(`sweep.${field}`),
    disabled,
    onChange: (given: number | string) =>
      onChange(["sweep", field], given === "" ? undefined : Number(given)),
  });
  const chooseMethod = (chosen: string | null) => {
    onChange(["sweep", "method"], chosen);
    const stops = chosen === "asha" || chosen === "halving";
    if (stops !== (sweep.rungs !== undefined)) onChange(["sweep", "rungs"], stops ? FIRST_RUNGS : undefined);
    if (chosen === "grid") onChange(["sweep", "members"], undefined);
  };
  return (
    <>
      <div className={classes.two}>
        <Select
          label="Method"
          data={[
            { value: "grid", label: "Grid: each combination" },
            { value: "random", label: "Random search" },
            { value: "halving", label: "Successive halving" },
            { value: "asha", label: "ASHA" },
          ]}
          value={method === "" ? null : method}
          error={errorOf("sweep.method")}
          disabled={disabled}
          onChange={chooseMethod}
        />
        <TextInput
          label="Metric"
          placeholder="a figure that members report, such as val_loss"
          value={textOf(sweep.metric)}
          error={errorOf("sweep.metric")}
          disabled={disabled}
          onChange={(event) => onChange(["sweep", "metric"], event.currentTarget.value)}
        />
      </div>
      <div className={classes.three}>
        <Select
          label="Goal"
          data={[
            { value: "min", label: "Smallest" },
            { value: "max", label: "Largest" },
          ]}
          value={textOf(sweep.goal) === "max" ? "max" : "min"}
          error={errorOf("sweep.goal")}
          disabled={disabled}
          onChange={(chosen) => onChange(["sweep", "goal"], chosen === "max" ? "max" : undefined)}
        />
        {method === "grid" ? null : <NumberInput label="Members" placeholder="27" {...number("members")} />}
        <NumberInput label="At once" placeholder="16" {...number("parallel")} />
      </div>
      <ParamFields
        params={sweep.params}
        isGrid={method === "grid"}
        disabled={disabled}
        errorOf={errorOf}
        onChange={(params) => onChange(["sweep", "params"], params)}
      />
      <Button
        className={classes.alone}
        variant="default"
        size="xs"
        disabled={disabled}
        onClick={() => onChange(["sweep"], undefined)}
      >
        Make it one job
      </Button>
    </>
  );
}
