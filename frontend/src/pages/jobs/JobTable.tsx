import { Checkbox, Skeleton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { Link, useNavigate } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type MouseEvent } from "react";

import type { Job } from "../../api/types";
import { causeOf, isOpen } from "../../components/cause";
import { JobStateChip } from "../../components/StateChip";
import { Ago, RunTime } from "../../components/Time";
import { plural } from "../../format/amount";
import { gpuTotals } from "../../format/request";
import { paramWords } from "../sweep/words";
import classes from "./JobTable.module.css";

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

interface Props {
  jobs: readonly Job[];
  selected: ReadonlySet<number>;
  onSelect: (selected: ReadonlySet<number>) => void;
  hasMore: boolean;
  loadingMore: boolean;
  onMore: () => void;
}

/** The jobs as rows, of which only those in view exist in the page. */
export function JobTable({ jobs, selected, onSelect, hasMore, loadingMore, onMore }: Props) {
  const narrow = useMediaQuery("(max-width: 760px)");
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useEffect(() => {
    setTop(body.current?.offsetTop ?? 0);
  }, []);

  const rowHeight = narrow ? 84 : 53;
  const virtualizer = useWindowVirtualizer({
    count: jobs.length,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: top,
    getItemKey: (index) => jobs[index]?.id ?? index,
  });
  useEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);

  const rows = virtualizer.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !loadingMore && last >= jobs.length - 20) onMore();
  }, [hasMore, loadingMore, last, jobs.length, onMore]);

  const open = jobs.filter(isOpen);
  const chosen = open.filter((job) => selected.has(job.id)).length;
  const toggle = (id: number) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };

  return (
    <div className={`card ${classes.table}`}>
      <div role="table" aria-label="Jobs" aria-rowcount={hasMore ? -1 : jobs.length}>
        <div role="rowgroup">
          <div className={`${classes.row} ${classes.head}`} role="row">
            <span role="columnheader" className={classes.pick}>
              <Checkbox
                size="xs"
                aria-label="Select all jobs that can be cancelled"
                disabled={open.length === 0}
                checked={open.length > 0 && chosen === open.length}
                indeterminate={chosen > 0 && chosen < open.length}
                onChange={() =>
                  onSelect(chosen === open.length ? new Set() : new Set(open.map((job) => job.id)))
                }
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
            const job = jobs[row.index];
            if (job === undefined) return null;
            return (
              <JobRow
                key={row.key}
                job={job}
                height={rowHeight}
                offset={row.start - top}
                selected={selected.has(job.id)}
                onToggle={toggle}
              />
            );
          })}
        </div>
      </div>
      <div className={classes.foot} role="status">
        {loadingMore ? "Loading more…" : hasMore ? " " : plural(jobs.length, "job")}
      </div>
    </div>
  );
}

interface RowProps {
  job: Job;
  height: number;
  offset: number;
  selected: boolean;
  onToggle: (id: number) => void;
}

function JobRow({ job, height, offset, selected, onToggle }: RowProps) {
  const navigate = useNavigate();
  const cause = causeOf(job);
  const open = (event: MouseEvent) => {
    // The row is a larger target for the link in it; links and boxes inside act for themselves.
    if (event.target instanceof Element && event.target.closest("a, input, label") !== null) return;
    if (window.getSelection()?.toString() !== "") return;
    void navigate({ to: "/jobs/$jobId", params: { jobId: String(job.id) } });
  };
  return (
    <div
      className={classes.row}
      role="row"
      data-selected={selected || undefined}
      data-waiting={job.started_at === null || undefined}
      style={{ height, transform: `translateY(${offset}px)` }}
      onClick={open}
    >
      <span role="cell" className={classes.pick}>
        {isOpen(job) ? (
          <Checkbox
            size="xs"
            aria-label={`Select job ${job.id}`}
            checked={selected}
            onChange={() => onToggle(job.id)}
          />
        ) : null}
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
          {job.sweep === null ? null : (
            <Link
              to="/sweeps/$sweepId"
              params={{ sweepId: String(job.sweep.id) }}
              className={classes.tag}
              title={paramWords(job.params)}
            >
              member {job.sweep.member} of {job.sweep.members}
            </Link>
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
      <span role="cell" className={`${classes.vc} truncate`}>
        <span className={classes.faint}>{job.tenant}/</span>
        {job.vc}
      </span>
      <span role="cell" className={`${classes.owner} truncate`}>
        {job.owner}
      </span>
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
