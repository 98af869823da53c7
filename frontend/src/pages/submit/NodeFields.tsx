import { MultiSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { nodesQuery } from "../../api/queries";
import { namesOf } from "./fields";
import classes from "./SpecForm.module.css";

/** More are found by typing. */
const MAX_SHOWN = 50;

interface Props {
  nodesIn: unknown;
  excluded: unknown;
  /** The pool in which the job runs; undefined while it is not known. */
  pool: string | undefined;
  disabled: boolean;
  errorOf: (field: string) => string | undefined;
  onChange: (field: "nodes_in" | "exclude_nodes", names: string[] | undefined) => void;
}

/** The nodes that the job may and may not run on, chosen from those of its pool. */
export function NodeFields({ nodesIn, excluded, pool, disabled, errorOf, onChange }: Props) {
  const nodes = useQuery(nodesQuery).data?.results ?? [];
  const names = nodes.filter((node) => node.pool === pool).map((node) => node.name);
  const field = (key: "nodes_in" | "exclude_nodes", value: unknown, other: unknown) => {
    const chosen = namesOf(value);
    return {
      // A name that no node of the pool has stays in sight, beside what the server says of it.
      data: [...new Set([...names.filter((name) => !namesOf(other).includes(name)), ...chosen])].sort(),
      value: chosen,
      error: errorOf(key),
      disabled: disabled || (value !== undefined && !Array.isArray(value)),
      classNames: { inputField: classes.names },
      searchable: true,
      clearable: true,
      hidePickedOptions: true,
      limit: MAX_SHOWN,
      nothingFoundMessage: "No such node in this pool",
      onChange: (picked: string[]) => onChange(key, picked.length === 0 ? undefined : picked),
    };
  };
  return (
    <div className={classes.two}>
      <MultiSelect
        label="Nodes to use"
        placeholder={namesOf(nodesIn).length === 0 ? "all nodes" : undefined}
        {...field("nodes_in", nodesIn, excluded)}
      />
      <MultiSelect
        label="Nodes to avoid"
        placeholder={namesOf(excluded).length === 0 ? "none" : undefined}
        {...field("exclude_nodes", excluded, nodesIn)}
      />
    </div>
  );
}
