import { ActionIcon, Button } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { useMe } from "../../app/me";
import type { QueueEntry } from "../../api/types";
import { useJobActions } from "../../components/jobActions";
import { useNow } from "../../components/now";
import { Chip } from "../../components/StateChip";
import { Time } from "../../components/Time";
import { ordinal } from "../../format/amount";
import { gpuWords } from "../../format/request";
import { duration, timesInWords } from "../../format/time";
import { holdWords, sentence } from "../../format/words";
import { neighbourOf, type Direction } from "./order";
import classes from "./QueuePage.module.css";

interface Props {
  jobs: readonly QueueEntry[];
  manages: boolean;
  onExchange: (first: QueueEntry, second: QueueEntry) => Promise<void>;
}

/** The waiting jobs as rows, with what can be done to each. */
export function QueueTable({ jobs, manages, onExchange }: Props) {
  const [said, setSaid] = useState("");
  const table = useRef<HTMLDivElement>(null);
  // A row that moves loses the focus of its button, which the next key press needs.
  const focus = useRef<string | null>(null);
  useEffect(() => {
    if (focus.current === null) return;
    table.current?.querySelector<HTMLElement>(`[data-move="${focus.current}"]`)?.focus();
    focus.current = null;
  }, [jobs]);

  const move = (job: QueueEntry, direction: Direction) => {
    const other = neighbourOf(jobs, job, direction);
    if (other === null) return;
    focus.current = `${job.id}-${direction}`;
    setSaid(other.position === null ? "" : `${job.name} is ${ordinal(other.position)} now`);
    void onExchange(job, other);
  };

  return (
    <>
      <div ref={table} className={`card ${classes.table}`} role="table" aria-label="Waiting jobs">
        <div role="rowgroup">
          <div role="row" className={`${classes.row} ${classes.head}`}>
            {["Place", "Job", "GPUs", "Waited", "Why it waits", "Actions"].map((name) => (
              <span key={name} role="columnheader">
                {name}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup">
          {jobs.map((job) => (
            <Row key={job.id} job={job} jobs={jobs} manages={manages} onMove={move} />
          ))}
        </div>
      </div>
      <p className="sr-only" role="status">
        {said}
      </p>
    </>
  );
}

interface RowProps {
  job: QueueEntry;
  jobs: readonly QueueEntry[];
  manages: boolean;
  onMove: (job: QueueEntry, direction: Direction) => void;
}

function Row({ job, jobs, manages, onMove }: RowProps) {
  const me = useMe();
  return (
    <div role="row" className={classes.row} data-held={job.held || undefined}>
      <span role="cell" className={`${classes.place} tabular`}>
        {job.position ?? <span className={classes.faint}>–</span>}
      </span>
      <span role="cell" className={classes.name}>
        <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className={`${classes.link} truncate`}>
          {job.name}
        </Link>
        <span className={classes.under}>
          <span className="mono">#{job.id}</span> {job.owner === me.username ? "yours" : job.owner}
          {job.priority === "normal" ? null : `, ${job.priority}`}
          {job.class === "opportunistic" ? ", opportunistic" : null}
          {job.bumped ? <Chip tone="active">Bumped</Chip> : null}
          {job.held ? <Chip tone="cancelled">Held</Chip> : null}
        </span>
      </span>
      <span role="cell" className={classes.gpus}>
        {gpuWords(job)}
        {job.gpu_choices.every(({ gpu_type: type }) => type === null) ? (
          <span className={classes.unit}> GPU</span>
        ) : null}
      </span>
      <span role="cell" className={`${classes.waited} tabular`}>
        {duration(job.waited_s)}
        {job.starts_at === null ? null : (
          <span className={classes.under}>
            by <Time at={job.starts_at} />
          </span>
        )}
      </span>
      <Reason job={job} />
      <Actions job={job} jobs={jobs} manages={manages} onMove={onMove} mine={job.owner === me.username} />
    </div>
  );
}

function Reason({ job }: { job: QueueEntry }) {
  const now = useNow();
  const names = [job.vc, job.tenant, job.name];
  return (
    <span role="cell" className={classes.why}>
      {job.hold === null ? (
        <span className={classes.faint}>The next cycle decides about it</span>
      ) : (
        <>
          {holdWords(job.hold.reason)}
          <span className={classes.under}>{sentence(timesInWords(job.hold.detail, now), names)}</span>
          {job.wait === null ? null : <span className={classes.under}>Its start: {job.wait.says}</span>}
          {job.hold.helps.slice(0, 1).map((help) => (
            <span key={help} className={classes.under}>
              It helps if {help}
            </span>
          ))}
        </>
      )}
    </span>
  );
}

const ICONS = { up: IconArrowUp, down: IconArrowDown };

function Actions({ job, jobs, manages, mine, onMove }: RowProps & { mine: boolean }) {
  const { act } = useJobActions();
  return (
    <span role="cell" className={classes.actions}>
      {job.movable
        ? (["up", "down"] as const).map((direction) => {
            const Icon = ICONS[direction];
            const end = neighbourOf(jobs, job, direction) === null;
            return (
              <ActionIcon
                key={direction}
                variant="default"
                size={30}
                data-move={`${job.id}-${direction}`}
                aria-label={`Move ${job.name} ${direction}`}
                // Not `disabled`: a button that is reached by keys must keep the focus at the end of the list.
                aria-disabled={end}
                data-end={end || undefined}
                className={classes.arrow}
                onClick={() => onMove(job, direction)}
              >
                <Icon size={16} />
              </ActionIcon>
            );
          })
        : null}
      {mine || manages ? (
        <Button
          variant="default"
          size="compact-sm"
          aria-label={`${job.held ? "Release" : "Hold"} ${job.name}`}
          onClick={() => void act(job.id, job.held ? "release" : "hold")}
        >
          {job.held ? "Release" : "Hold"}
        </Button>
      ) : null}
      {manages && !job.held ? (
        <Button
          variant="default"
          size="compact-sm"
          aria-label={`${job.bumped ? "Unbump" : "Bump"} ${job.name}`}
          onClick={() => void act(job.id, job.bumped ? "unbump" : "bump")}
        >
          {job.bumped ? "Unbump" : "Bump"}
        </Button>
      ) : null}
    </span>
  );
}
