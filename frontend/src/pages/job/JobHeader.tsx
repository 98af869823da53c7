import { Button } from "@mantine/core";
import { IconCopyPlus, IconPlayerStop, IconRefresh } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Attempt, JobWithSpec } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { causeOf, isOpen } from "../../components/cause";
import { Fact, Facts } from "../../components/Fact";
import { GroupLink } from "../../components/GroupLink";
import { memberWords } from "../../components/groups";
import { useJobActions } from "../../components/jobActions";
import { Chip, JobStateChip, type Tone } from "../../components/StateChip";
import { Ago, RunTime } from "../../components/Time";
import { mebibytes, plural } from "../../format/amount";
import { gpuWords } from "../../format/request";
import { humanize } from "../../format/words";
import { paramWords } from "../sweep/words";
import { estimateWords, rateWords } from "./estimate";
import classes from "./JobPage.module.css";
import { NodeFacts } from "./NodeFacts";
import { ShellFact } from "./ShellFact";
import { WaitFact } from "./WaitFact";
import { WaitingActions } from "./WaitingActions";

const TONE_OF_CAUSE: Record<string, Tone> = { failed: "failed", active: "queued" };

/** Whether it can be queued again after its end, as a member of its group. */
const runsAgain = ({ group, state, reason }: JobWithSpec): boolean =>
  group !== null && (state === "failed" || (state === "cancelled" && reason !== "stopped_early"));

/** The name of the job, its state and what can be done with it. */
export function JobHeader({ job }: { job: JobWithSpec }) {
  const { cancel, requeue } = useJobActions();
  const [asking, setAsking] = useState<"cancel" | "requeue" | null>(null);
  const cause = causeOf(job);
  const stopping = job.desired === "stop";

  return (
    <header>
      <div className={classes.header}>
        <div className={classes.titleRow}>
          <h1 className={classes.title}>{job.name}</h1>
          <JobStateChip state={job.state} desired={job.desired} stage={job.stage} />
          {cause === null ? null : <Chip tone={TONE_OF_CAUSE[job.state] ?? "cancelled"}>{cause}</Chip>}
        </div>
        <div className={classes.actions}>
          {job.state === "queued" && !stopping ? <WaitingActions job={job} /> : null}
          {job.state === "active" && !stopping ? (
            <Button
              variant="default"
              leftSection={<IconRefresh size={16} />}
              onClick={() => setAsking("requeue")}
            >
              Requeue
            </Button>
          ) : null}
          {runsAgain(job) ? (
            <Button
              variant="default"
              leftSection={<IconRefresh size={16} />}
              title="Inside its group, as this job"
              onClick={() => void requeue(job.id)}
            >
              Run again
            </Button>
          ) : null}
          <Button
            variant="default"
            leftSection={<IconCopyPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" search={{ clone: String(job.id) }} {...props} />}
          >
            Clone
          </Button>
          {isOpen(job) ? (
            <Button
              variant="default"
              className={classes.danger}
              disabled={stopping}
              leftSection={<IconPlayerStop size={16} />}
              onClick={() => setAsking("cancel")}
            >
              Cancel
            </Button>
          ) : null}
        </div>
      </div>
      <Confirm
        opened={asking === "cancel"}
        title={`Cancel ${job.name}?`}
        yes="Cancel job"
        onClose={() => setAsking(null)}
        onYes={() => cancel(job.id)}
      >
        {job.state === "active"
          ? "The job gets its stop signal and can save a checkpoint. It is killed when its grace period is over."
          : "It leaves the queue. It can be cloned later."}
      </Confirm>
      <Confirm
        opened={asking === "requeue"}
        title={`Requeue ${job.name}?`}
        yes="Requeue job"
        onClose={() => setAsking(null)}
        onYes={() => requeue(job.id)}
      >
        It is stopped here, after its grace period, and waits for a place again.
      </Confirm>
    </header>
  );
}

function NodeNames({ name, names = [] }: { name: string; names?: readonly string[] | undefined }) {
  return names.length === 0 ? null : <Fact name={name}>{names.join(", ")}</Fact>;
}

function Sizes({
  elastic,
}: {
  elastic?: { min: number; max: number; over?: string | undefined } | null | undefined;
}) {
  if (elastic === undefined || elastic === null) return null;
  return (
    <Fact name="May be resized">
      {elastic.min} to {plural(elastic.max, "GPU")} {elastic.over === "gang" ? "in all" : "a node"}
    </Fact>
  );
}

function PerNode({ job }: { job: JobWithSpec }) {
  const [cpus, memory] = [job.spec.cpus, job.spec.memory].map((named) => (named == null ? " (default)" : ""));
  const each = job.sizes.map(
    (size) => `${plural(size.cpus, "CPU")}${cpus}, ${mebibytes(size.memory_mib)}${memory}`,
  );
  return <Fact name="On each node">{[...new Set(each)].join(" or ")}</Fact>;
}

function Outputs({ job }: { job: JobWithSpec }) {
  const named = job.spec.outputs ?? [];
  const gone = job.ended_at === null ? "is removed when it ends" : "was removed when it ended";
  return <Fact name="Outputs">{named.length > 0 ? named.join(", ") : `none named: its folder ${gone}`}</Fact>;
}

/** What was asked for, by whom, and what it came to. */
export function JobFacts({ job, attempt }: { job: JobWithSpec; attempt: Attempt | undefined }) {
  return (
    <div className={classes.facts}>
      <Facts>
        <Fact name="Job">
          <span className="mono">#{job.id}</span>
        </Fact>
        {job.group === null ? null : (
          <Fact name={job.group.kind === "array" ? "Array" : "Sweep"}>
            <GroupLink group={job.group} className="link">
              {job.group.name}
            </GroupLink>
            , {memberWords(job.group)} of {job.group.members}
          </Fact>
        )}
        {Object.keys(job.params).length === 0 ? null : (
          <Fact name="Parameters">{paramWords(job.params)}</Fact>
        )}
        <Fact name="Virtual cluster" term="virtualCluster">
          <Link to="/jobs" search={{ vc: job.vc, tenant: job.tenant }} className="link">
            {job.tenant} / {job.vc}
          </Link>
        </Fact>
        <Fact name="Owner">{job.owner}</Fact>
        <Fact name="GPUs">{gpuWords(job)}</Fact>
        <PerNode job={job} />
        <Sizes elastic={job.spec.elastic} />
        <NodeNames name="Nodes to use" names={job.spec.nodes_in} />
        <NodeNames name="Nodes to avoid" names={job.spec.exclude_nodes} />
        <NodeNames
          name="Labels of nodes"
          names={Object.entries(job.spec.node_labels ?? {}).map(([label, value]) => `${label}=${value}`)}
        />
        <Outputs job={job} />
        <Fact name="Priority">{humanize(job.priority)}</Fact>
        <Fact name="Submitted">
          <Ago at={job.submitted_at} />
        </Fact>
        <Fact name="Run time">
          <RunTime job={job} />
        </Fact>
        <WaitFact job={job} />
        {job.estimate === null ? null : (
          <Fact name="Expected run time" term="estimate">
            {estimateWords(job.estimate)}
          </Fact>
        )}
        {job.rates.length === 0 ? null : (
          <Fact name="Rates" term="rate">
            {job.rates.map(rateWords).join("; ")}
          </Fact>
        )}
        {attempt === undefined ? null : <NodeFacts attempt={attempt} />}
        <ShellFact job={job} attempt={attempt} />
        {job.exit_code === null ? null : <Fact name="Exit code">{job.exit_code}</Fact>}
        {job.cloned_from === null ? null : (
          <Fact name="Clone of">
            <Link to="/jobs/$jobId" params={{ jobId: String(job.cloned_from) }} className="link mono">
              #{job.cloned_from}
            </Link>
          </Fact>
        )}
        {Object.entries(job.tags).map(([key, value]) => (
          <Fact key={key} name={key}>
            <Link to="/jobs" search={{ tag: `${key}:${value}` }} className="link">
              {value}
            </Link>
          </Fact>
        ))}
      </Facts>
    </div>
  );
}
