import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";

import { Problem } from "../../api/problem";

const AFTER_MS = 300;

/** What the server says of a change before it is saved, some time after the last key. */
export interface DryRun<T> {
  /** False while what is typed has not been answered yet. */
  checked: boolean;
  answer: T | undefined;
  problem: Problem | undefined;
}

/** `change` null: there is nothing to ask. */
export function useDryRun<C, T>(
  key: readonly unknown[],
  change: C | null,
  ask: (change: C) => Promise<T>,
): DryRun<T> {
  const asked = JSON.stringify(change);
  const [settled] = useDebouncedValue(asked, AFTER_MS);
  const query = useQuery({
    queryKey: ["dry-run", ...key, settled],
    queryFn: () => ask(JSON.parse(settled) as C),
    enabled: settled !== "null",
    retry: false,
    gcTime: 0,
  });
  const checked = settled === asked && (change === null || !query.isFetching);
  return {
    checked,
    answer: checked && change !== null ? query.data : undefined,
    problem: checked && change !== null && query.error instanceof Problem ? query.error : undefined,
  };
}
