import { ActionIcon, Button, Select, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useState } from "react";

import type { Spec } from "../../api/types";
import { NEW_PARAM, readParams, writeParams, type Kind, type Param } from "./params";
import classes from "./ParamFields.module.css";

const KINDS: readonly { value: Kind; label: string }[] = [
  { value: "list", label: "List" },
  { value: "log", label: "Range, logarithmic" },
  { value: "uniform", label: "Range" },
  { value: "int", label: "Whole numbers" },
];

interface Props {
  params: unknown;
  /** A grid takes lists and whole numbers only. */
  isGrid: boolean;
  disabled: boolean;
  errorOf: (field: string) => string | undefined;
  onChange: (params: Spec) => void;
}

/** A line for each parameter: its name, and its values or its range. */
export function ParamFields({ params, isGrid, disabled, errorOf, onChange }: Props) {
  const written = readParams(params);
  // What is being typed stays as it is; a change from elsewhere replaces it.
  const [draft, setDraft] = useState<readonly Param[]>(written);
  const same = JSON.stringify(writeParams(draft)) === JSON.stringify(writeParams(written));
  const found = same ? draft : written;
  const lines = found.length === 0 ? [NEW_PARAM] : found;
  const change = (next: readonly Param[]) => {
    setDraft(next);
    onChange(writeParams(next));
  };
  const kinds = KINDS.filter(({ value }) => !isGrid || value === "list" || value === "int");
  const problem = errorOf("sweep.params");

  return (
    <fieldset className={classes.params} disabled={disabled}>
      <legend>Parameters</legend>
      <p className={classes.hint}>
        Each reaches the command as a variable of its name, such as <code>{"${lr}"}</code>.
      </p>
      {lines.map((param, index) => {
        const set = (changes: Partial<Param>) =>
          change(lines.map((each, at) => (at === index ? { ...each, ...changes } : each)));
        const which = `parameter ${index + 1}`;
        const text = (field: "name" | "values" | "from" | "to", label: string, placeholder: string) => (
          <TextInput
            aria-label={`${label} of ${which}`}
            placeholder={placeholder}
            value={param[field]}
            onChange={(event) => set({ [field]: event.currentTarget.value })}
          />
        );
        const error = param.name === "" ? undefined : errorOf(`sweep.params.${param.name}`);
        return (
          <div key={index} className={classes.param}>
            {text("name", "Name", "name")}
            <Select
              aria-label={`Kind of ${which}`}
              data={kinds}
              value={param.kind}
              allowDeselect={false}
              onChange={(kind) => set({ kind: kind ?? "list" })}
            />
            {param.kind === "list" ? (
              <div className={classes.values}>{text("values", "Values", "with commas between them")}</div>
            ) : (
              <div className={classes.range}>
                {text("from", "Start", "from")}
                {text("to", "End", "to")}
              </div>
            )}
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              aria-label={`Remove ${which}`}
              onClick={() => change(lines.filter((_, at) => at !== index))}
            >
              <IconTrash size={16} />
            </ActionIcon>
            {error === undefined ? null : <p className={classes.error}>{error}</p>}
          </div>
        );
      })}
      {problem === undefined ? null : <p className={classes.error}>{problem}</p>}
      <Button
        className={classes.add}
        variant="default"
        size="xs"
        leftSection={<IconPlus size={14} />}
        onClick={() => setDraft([...lines, NEW_PARAM])}
      >
        Add a parameter
      </Button>
    </fieldset>
  );
}
