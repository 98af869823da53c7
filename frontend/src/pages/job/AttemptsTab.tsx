import { Skeleton } from "@mantine/core";
import { IconRepeat } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Allocation, Attempt, AttemptList } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { AttemptStateChip, Label } from "../../components/StateChip";
import { Ago, Elapsed } from "../../components/Time";
import { bytes } from "../../format/amount";
import { humanize, reasonWords } from "../../format/words";
import classes from "./AttemptsTab.module.css";
import { sizeWords } from "./sizes";
import { SizesCard } from "./SizesCard";

/** The end of a GPU's identifier tells it apart from its neighbours; the start is the same for all. */
const shortGpu = (uuid: string): string => (uuid.length > 12 ? `…${uuid.slice(-8)}` : uuid);

function AllocationRow({
  jobId,
  attempt,
  allocation,
}: {
  jobId: string;
  attempt: number;
  allocation: Allocation;
}) {
  const exit = allocation.exit_code;
  return (
    <tr>
      <td className={classes.number}>{allocation.rank}</td>
      <td>
        <Link to="/cluster" search={{ node: allocation.node }} className="link mono">
          {allocation.node}
        </Link>
      </td>
      <td>
        <span className={classes.gpus}>
          {allocation.gpus.length === 0 ? <span className={classes.faint}>none</span> : null}
          {allocation.gpus.map((uuid) => (
            <span key={uuid} className={`${classes.gpu} mono`} title={uuid}>
              {shortGpu(uuid)}
            </span>
          ))}
        </span>
      </td>
      <td>{humanize(allocation.observed)}</td>
      <td className={classes.number} data-bad={(exit !== null && exit !== 0) || undefined}>
        {exit ?? <span className={classes.faint}>–</span>}
      </td>
      <td className={classes.number}>
        <Link
          to="/jobs/$jobId"
          params={{ jobId }}
          search={{ tab: "logs", attempt: String(attempt), rank: String(allocation.rank) }}
          className="link"
        >
          {bytes(allocation.log_size)}
          <span className="sr-only">, log of rank {allocation.rank}</span>
        </Link>
      </td>
    </tr>
  );
}

function AttemptCard({
  jobId,
  attempt,
  before,
}: {
  jobId: string;
  attempt: Attempt;
  before: Attempt | undefined;
}) {
  return (
    <section className={`card ${classes.card}`} aria-label={`Attempt ${attempt.number}`}>
      <header className={classes.head}>
        <h2 className={classes.title}>Attempt {attempt.number}</h2>
        <AttemptStateChip state={attempt.state} />
        {attempt.stage === "screening" ? <Label>Screening run</Label> : null}
        <span className={classes.facts}>
          <span>{sizeWords(attempt, before)}</span>
          <span>
            placed <Ago at={attempt.placed_at} />
          </span>
          {attempt.started_at === null ? null : (
            <span>
              ran <Elapsed from={attempt.started_at} to={attempt.ended_at} />
            </span>
          )}
          {attempt.exit_code === null ? null : <span>exit code {attempt.exit_code}</span>}
        </span>
      </header>
      {attempt.reason === null ? null : (
        <p className={classes.reason}>
          {reasonWords(attempt.reason)}
          {attempt.reason_detail === null || attempt.reason_detail === "" ? "" : `: ${attempt.reason_detail}`}
        </p>
      )}
      {attempt.failure === null || attempt.failure.line === "" ? null : (
        <p className={classes.reason}>
          {attempt.failure.title}: <code>{attempt.failure.line}</code>
        </p>
      )}
      <div className={classes.scroll}>
        <table className={classes.table}>
          <thead>
            <tr>
              <th className={classes.number}>Rank</th>
              <th>Node</th>
              <th>GPUs</th>
              <th>Process</th>
              <th className={classes.number}>Exit code</th>
              <th className={classes.number}>Log</th>
            </tr>
          </thead>
          <tbody>
            {attempt.allocations.map((allocation) => (
              <AllocationRow
                key={allocation.id}
                jobId={jobId}
                attempt={attempt.number}
                allocation={allocation}
              />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Every try at running the job, newest first. */
export function AttemptsTab({ jobId, query }: { jobId: string; query: UseQueryResult<AttemptList> }) {
  if (query.isPending) return <Skeleton height={140} radius={12} />;
  if (query.data === undefined) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  const attempts = [...query.data.results].sort((one, other) => other.number - one.number);
  if (attempts.length === 0) {
    return (
      <div className="card">
        <Empty icon={<IconRepeat size={20} />} title="Not tried yet">
          Each time the job is placed on nodes, the nodes, ranks and GPUs it got are listed here.
        </Empty>
      </div>
    );
  }
  return (
    <div className={classes.list}>
      <SizesCard attempts={[...attempts].reverse()} />
      {attempts.map((attempt, index) => (
        <AttemptCard key={attempt.number} jobId={jobId} attempt={attempt} before={attempts[index + 1]} />
      ))}
    </div>
  );
}
