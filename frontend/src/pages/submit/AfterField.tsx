import { TagsInput, type ComboboxItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { listJobs } from "../../api/client";
import type { Bound } from "./binding";
import { namesOf } from "./fields";
import classes from "./SpecForm.module.css";

const KINDS = ["ok", "any", "failed", "started"] as const;
/** Of the jobs that match; more are found by typing. */
const MAX_JOBS = 8;

interface Props extends Pick<Bound, "disabled" | "errorOf" | "onChange"> {
  after: unknown;
}

/** What the job waits for: completed from the user's jobs, each with the ends that can be awaited. */
export function AfterField({ after, disabled, errorOf, onChange }: Props) {
  const [typed, setTyped] = useState("");
  const [search] = useDebouncedValue(typed.split(":")[0]?.trim() ?? "", 200);
  const [opened, setOpened] = useState(false);
  const jobs = useQuery({
    queryKey: ["jobs", "after", search],
    queryFn: ({ signal }) =>
      listJobs({ mine: true, members: false, search: search || undefined }, MAX_JOBS, undefined, signal),
    enabled: opened,
  });
  const names = new Map(
    (jobs.data?.results ?? []).slice(0, MAX_JOBS).map((job) => {
      const progress = job.group?.progress ?? null;
      return [job.group !== null && progress !== null ? job.group.id : job.id, job.name];
    }),
  );
  const chosen = namesOf(after);
  const error = errorOf("after") ?? chosen.map((_, index) => errorOf(`after.${index}`)).find(Boolean);
  return (
    <TagsInput
      label="After"
      description="Jobs and groups that it waits for"
      placeholder={chosen.length === 0 ? "none" : undefined}
      data={[...names.keys()].flatMap((id) => KINDS.map((kind) => `${id}:${kind}`))}
      filter={({ options, search: text }) =>
        (options as ComboboxItem[]).filter(({ value }) => {
          const [id = "", kind = ""] = text.trim().split(":");
          const named = names.get(Number(value.split(":")[0])) ?? "";
          return (value.startsWith(id) || named.includes(id)) && (value.split(":")[1] ?? "").startsWith(kind);
        })
      }
      renderOption={({ option }) => {
        const [id = "", kind = ""] = option.value.split(":");
        return (
          <span>
            <strong>{id}</strong> {names.get(Number(id))}, {WORDS[kind]}
          </span>
        );
      }}
      value={chosen}
      error={error}
      disabled={disabled || (after !== undefined && !Array.isArray(after))}
      classNames={{ inputField: classes.names }}
      maxDropdownHeight={260}
      searchValue={typed}
      onSearchChange={setTyped}
      onDropdownOpen={() => setOpened(true)}
      onChange={(entries) => onChange(["after"], entries.length === 0 ? undefined : entries)}
    />
  );
}

const WORDS: Record<string, string> = {
  ok: "once it has succeeded",
  any: "once it has ended",
  failed: "once it has failed",
  started: "once it has started",
};
