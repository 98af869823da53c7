import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { dryRun } from "../../api/client";
import { Problem, type FieldError } from "../../api/problem";
import type { Spec } from "../../api/types";

/** Typing stops for this long before the server is asked. */
const PAUSE_MS = 350;
/** The cluster changes under a spec that does not: an old answer is asked for anew. */
const REPEAT_MS = 15_000;

const NONE: readonly FieldError[] = [];

/** What the server says of a spec as it stands, a moment after each change of it. */
export function useDryRun(spec: Spec | null) {
  const text = spec === null ? null : JSON.stringify(spec);
  const [settled] = useDebouncedValue(text, PAUSE_MS);
  const query = useQuery({
    queryKey: ["dry-run", settled],
    queryFn: ({ signal }) => dryRun(JSON.parse(settled ?? "{}") as Spec, signal),
    enabled: settled !== null,
    placeholderData: keepPreviousData,
    refetchInterval: REPEAT_MS,
    retry: false,
    gcTime: 30_000,
  });
  const { error } = query;
  const refused = error instanceof Problem && error.status < 500;
  const fields = refused
    ? error.fields.length > 0
      ? error.fields
      : [{ field: "", message: error.message }]
    : NONE;
  return {
    result: query.isError ? undefined : query.data,
    fields,
    failure: refused ? null : error,
    busy: text !== settled || query.isFetching,
  };
}
