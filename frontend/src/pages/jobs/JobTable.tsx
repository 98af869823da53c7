import { Checkbox, Skeleton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconChevronRight } from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type CSSProperties, type MouseEvent, type ReactNode } from "react";

import type { Job } from "../../api/types";
import { causeInFull } from "../../components/cause";
import { GroupLink } from "../../components/GroupLink";
import { groupOf, memberWords, progressWords, rowKey, type GroupRow as Group } from "../../components/groups";
import { GroupStateChip, JobStateChip } from "../../components/StateChip";
import { Ago, Elapsed, RunTime } from "../../components/Time";
import { plural } from "../../format/amount";
import { gpuTotals } from "../../format/request";
import { paramWords } from "../sweep/words";
import classes from "./JobTable.module.css";
import type { useMembers } from "./useMembers";

const COLUMNS = [
  "State",
  "Job",
  "Virtual cluster",
  "Owner",
  "GPUs",
  "Queue position",
  "Submitted",
  "Run time",
] as const;
const NUMERIC = new Set<string>(["GPUs", "Queue position", "Submitted", "Run time"]);

/** Of a job's tags in its row; its page has all of them. */
const TAGS_SHOWN = 2;

/** A row of the table: a job, a group, a member below its group, or the place of members that are not loaded. */
type Row = { key: string; job: Job; below: boolean } | { key: string; more: number };

interface Props {
  jobs: readonly Job[];
  /** By the keys of rows. */
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  /** The rows that can be cancelled. */
  open: readonly Job[];
  members: ReturnType<typeof useMembers>;
  hasMore: boolean;
  loadingMore: boolean;
  onMore: () => void;
}

/** The rows with the members of open groups below theirs. */
function rowsOf(jobs: readonly Job[], members: Props["members"]): Row[] {
  return jobs.flatMap((job) => {
    const row = { key: rowKey(job), job, below: false };
    const group = groupOf(job);
    const found = group === null ? null : members.membersOf(group.id);
    if (group === null || found === null) return [row];
    const below = found.jobs.map((member) => ({ key: rowKey(member), job: member, below: true }));
    return [row, ...below, ...(found.more ? [{ key: `more ${group.id}`, more: group.id }] : [])];
  });
}

/** The jobs as rows, of which only those in view exist in the page. */
export function JobTable({ jobs, selected, onSelect, open, members, hasMore, loadingMore, onMore }: Props) {
  const all = rowsOf(jobs, members);
  const narrow = useMediaQuery("(max-width: 760px)");
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useEffect(() => {
    setTop(body.current?.offsetTop ?? 0);
  }, []);

  const rowHeight = narrow ? 84 : 53;
  const virtualizer = useWindowVirtualizer({
    count: all.length,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: top,
    getItemKey: (index) => all[index]?.key ?? index,
  });
  useEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);

  const rows = virtualizer.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !loadingMore && last >= all.length - 20) onMore();
  }, [hasMore, loadingMore, last, all.length, onMore]);
  const missing = rows.flatMap(({ index }) => {
    const row = all[index];
    return row !== undefined && "more" in row ? [row.more] : [];
  })[0];
  const { loadMore } = members;
  useEffect(() => {
    if (missing !== undefined) loadMore(missing);
  });

  const chosen = open.filter((job) => selected.has(rowKey(job))).length;
  const toggle = (key: string) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };

  return (
    <div className={`card ${classes.table}`}>
      <div role="table" aria-label="Jobs" aria-rowcount={hasMore ? -1 : all.length}>
        <div role="rowgroup">
          <div className={`${classes.row} ${classes.head}`} role="row">
            <span role="columnheader" className={classes.pick}>
              <Checkbox
                size="xs"
                aria-label="Select all jobs that can be cancelled"
                disabled={open.length === 0}
                checked={open.length > 0 && chosen === open.length}
                indeterminate={chosen > 0 && chosen < open.length}
                onChange={() => onSelect(chosen === open.length ? new Set() : new Set(open.map(rowKey)))}
              />
              <span className={classes.pickAll} aria-hidden="true">
                Select all
              </span>
            </span>
            {COLUMNS.map((name) => (
              <span key={name} role="columnheader" className={NUMERIC.has(name) ? classes.number : undefined}>
                {name}
              </span>
            ))}
          </div>
        </div>
        <div
          ref={body}
          role="rowgroup"
          className={classes.body}
          style={{ height: virtualizer.getTotalSize() }}
        >
          {rows.map((row) => {
            const shown = all[row.index];
            if (shown === undefined) return null;
            const style = { height: rowHeight, transform: `translateY(${row.start - top}px)` };
            if ("more" in shown) {
              return (
                <div key={row.key} className={classes.row} role="row" style={style} aria-busy="true">
                  <span role="cell" className={classes.loading}>
                    Loading more members…
                  </span>
                </div>
              );
            }
            const group = groupOf(shown.job);
            const pick = open.includes(shown.job) ? (
              <Pick job={shown.job} selected={selected.has(shown.key)} onToggle={() => toggle(shown.key)} />
            ) : null;
            const common = { style, pick, selected: selected.has(shown.key) };
            return group === null ? (
              <JobRow key={row.key} job={shown.job} below={shown.below} {...common} />
            ) : (
              <GroupRow
                key={row.key}
                job={shown.job}
                group={group}
                expanded={members.membersOf(group.id) !== null}
                onExpand={() => members.toggle(group.id)}
                {...common}
              />
            );
          })}
        </div>
      </div>
      <div className={classes.foot} role="status">
        {loadingMore ? "Loading more…" : hasMore ? " " : footWords(jobs)}
      </div>
    </div>
  );
}

/** `12 jobs`, `12 jobs and 2 groups of jobs`. */
function footWords(jobs: readonly Job[]): string {
  const groups = jobs.filter((job) => groupOf(job) !== null).length;
  const alone = plural(jobs.length - groups, "job");
  if (groups === 0) return alone;
  const together = plural(groups, jobs.some((job) => job.group?.kind === "array") ? "group" : "sweep");
  return groups === jobs.length ? together : `${alone} and ${together}`;
}

function Pick({ job, selected, onToggle }: { job: Job; selected: boolean; onToggle: () => void }) {
  return <Checkbox size="xs" aria-label={`Select ${rowKey(job)}`} checked={selected} onChange={onToggle} />;
}

interface RowProps {
  job: Job;
  style: CSSProperties;
  selected: boolean;
  pick: ReactNode;
}

/** A row is a larger target for the link in it; what can be used inside acts for itself. */
const isForRow = ({ target }: MouseEvent): boolean =>
  !(target instanceof Element && target.closest("a, button, input, label") !== null) &&
  window.getSelection()?.toString() === "";

/** One row for all members of a group. */
function GroupRow({
  job,
  group,
  expanded,
  onExpand,
  style,
  selected,
  pick,
}: RowProps & { group: Group; expanded: boolean; onExpand: () => void }) {
  const { progress } = group;
  const gpus = `${group.members} × ${gpuTotals(job)}`;
  return (
    <div
      className={classes.row}
      role="row"
      data-group
      data-selected={selected || undefined}
      data-waiting={progress.started_at === null || undefined}
      style={style}
      onClick={(event) => {
        if (isForRow(event)) onExpand();
      }}
    >
      <span role="cell" className={classes.pick}>
        {pick}
      </span>
      <span role="cell" className={classes.state}>
        <GroupStateChip state={group.state} running={progress.running} />
      </span>
      <span role="cell" className={classes.name}>
        <span className={classes.groupName}>
          <button
            type="button"
            className={classes.expand}
            aria-expanded={expanded}
            aria-label={`Members of ${group.kind} ${group.id}`}
            onClick={onExpand}
          >
            <IconChevronRight size={16} />
          </button>
          <GroupLink group={group} className={`${classes.link} truncate`}>
            {group.name}
          </GroupLink>
        </span>
        <span className={`${classes.under} truncate`}>
          <span className={classes.kind}>
            {group.kind} <span className="mono">#{group.id}</span>
          </span>
          <span className="truncate" title={progressWords(group)}>
            {progressWords(group)}
          </span>
        </span>
      </span>
      <OwnerCells job={job} />
      <span role="cell" className={`${classes.number} ${classes.gpus} tabular`}>
        {gpus}
        <span className={classes.unit}> {gpuTotals(job) === "1" ? "GPU" : "GPUs"}</span>
      </span>
      <span role="cell" className={`${classes.number} ${classes.place} tabular`}>
        <span className={classes.faint}>–</span>
      </span>
      <span role="cell" className={`${classes.number} ${classes.submitted}`}>
        <Ago at={job.submitted_at} />
      </span>
      <span role="cell" className={`${classes.number} ${classes.time}`}>
        {progress.started_at === null ? "–" : <Elapsed from={progress.started_at} to={progress.ended_at} />}
      </span>
    </div>
  );
}

function JobRow({ job, below, style, selected, pick }: RowProps & { below: boolean }) {
  const navigate = useNavigate();
  const cause = causeInFull(job);
  return (
    <div
      className={classes.row}
      role="row"
      data-below={below || undefined}
      data-selected={selected || undefined}
      data-waiting={job.started_at === null || undefined}
      style={style}
      onClick={(event) => {
        if (isForRow(event)) void navigate({ to: "/jobs/$jobId", params: { jobId: String(job.id) } });
      }}
    >
      <span role="cell" className={classes.pick}>
        {pick}
      </span>
      <span role="cell" className={classes.state}>
        <JobStateChip state={job.state} desired={job.desired} stage={job.stage} />
      </span>
      <span role="cell" className={classes.name}>
        <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className={`${classes.link} truncate`}>
          {job.name}
        </Link>
        <span className={`${classes.under} truncate`}>
          <span className="mono">#{job.id}</span>
          {job.group === null ? null : below ? (
            <span className="truncate">
              {memberWords(job.group)}
              {Object.keys(job.params).length === 0 ? "" : `: ${paramWords(job.params)}`}
            </span>
          ) : (
            <GroupLink group={job.group} className={classes.tag ?? ""} title={paramWords(job.params)}>
              {memberWords(job.group)} of {job.group.members}
            </GroupLink>
          )}
          {cause === null ? null : (
            <span className={classes.cause} data-state={job.state}>
              {cause}
            </span>
          )}
          {Object.entries(job.tags)
            .slice(0, TAGS_SHOWN)
            .map(([key, value]) => (
              <Link
                key={key}
                to="/jobs"
                search={(old) => ({ ...old, tag: `${key}:${value}` })}
                className={`${classes.tag} truncate`}
                title={`Jobs with ${key}: ${value}`}
              >
                {key}: {value}
              </Link>
            ))}
        </span>
      </span>
      <OwnerCells job={job} />
      <span role="cell" className={`${classes.number} ${classes.gpus} tabular`}>
        {gpuTotals(job)}
        <span className={classes.unit}> {gpuTotals(job) === "1" ? "GPU" : "GPUs"}</span>
      </span>
      <span role="cell" className={`${classes.number} ${classes.place} tabular`}>
        {job.position ?? <span className={classes.faint}>–</span>}
      </span>
      <span role="cell" className={`${classes.number} ${classes.submitted}`}>
        <Ago at={job.submitted_at} />
      </span>
      <span role="cell" className={`${classes.number} ${classes.time}`}>
        <RunTime job={job} />
      </span>
    </div>
  );
}

export function JobTableSkeleton() {
  return (
    <div className={`card ${classes.table}`} aria-busy="true" aria-label="Loading jobs">
      {Array.from({ length: 9 }, (_, index) => (
        <div key={index} className={classes.ghost}>
          <Skeleton width={84} height={20} radius={6} />
          <Skeleton width={`${30 + ((index * 17) % 25)}%`} height={14} />
          <Skeleton width={70} height={14} ml="auto" />
        </div>
      ))}
    </div>
  );
}

/** The cells of the virtual cluster and the owner, which a job and its group have alike. */
function OwnerCells({ job }: { job: Job }) {
  return (
    <>
      <span role="cell" className={`${classes.vc} truncate`}>
        <span className={classes.faint}>{job.tenant}/</span>
        {job.vc}
      </span>
      <span role="cell" className={`${classes.owner} truncate`}>
        {job.owner}
      </span>
    </>
  );
}
