import { Button, Skeleton, Tabs } from "@mantine/core";
import { IconChartLine, IconChevronLeft, IconFileText } from "@tabler/icons-react";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";

import { loadPart } from "../../api/parts";
import { attemptsQuery, isMissing, jobQuery, useFallbackInterval } from "../../api/queries";
import type { AttemptList, JobWithSpec } from "../../api/types";
import { MetricsLoading } from "../../components/charts/MetricsPanel";
import { Empty, Failed } from "../../components/Notice";
import { Page } from "../../components/Page";
import { AttemptsTab } from "./AttemptsTab";
import { DependencyCard } from "./DependencyCard";
import { EfficiencyCard } from "./EfficiencyCard";
import { EventsTab } from "./EventsTab";
import { FairnessLine } from "./FairnessLine";
import { FailureCard } from "./FailureCard";
import { FinishCard } from "./FinishCard";
import { FilesTab } from "./FilesTab";
import { IdleCard } from "./IdleCard";
import { JobFacts, JobHeader } from "./JobHeader";
import classes from "./JobPage.module.css";
import { KeptCard } from "./KeptCard";
import { LogView } from "./logs/LogView";
import { ResizeCard } from "./ResizeCard";
import { StoppedCard } from "./StoppedCard";
import { TimelineCard } from "./TimelineCard";
import { TrainingCard } from "./TrainingCard";
import { ScreeningCard } from "./ScreeningCard";
import { WhyCard } from "./WhyCard";

const route = getRouteApi("/app/jobs/$jobId");

// The YAML writer is only needed by who opens this tab.
const SpecTab = lazy(() => loadPart(() => import("./SpecTab")));
const MetricsTab = lazy(() => loadPart(() => import("./MetricsTab")));

export function JobPage() {
  const { jobId } = route.useParams();
  const id = /^\d{1,15}$/.test(jobId) ? Number(jobId) : 0;
  const query = useQuery({ ...jobQuery(id), enabled: id > 0, refetchInterval: useFallbackInterval() });
  const job = query.data;

  if (id === 0 || (isMissing(query.error) && job === undefined)) {
    return (
      <Page title="Job">
        <Empty
          icon={<IconFileText size={20} />}
          title={`There is no job ${jobId}`}
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/jobs" {...props} />}>
              To the jobs
            </Button>
          }
        >
          The job does not exist, or you may not see it.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title={job === undefined ? `Job ${jobId}` : job.name}>
      <Link to="/jobs" className={classes.back}>
        <IconChevronLeft size={15} aria-hidden="true" />
        Jobs
      </Link>
      {job !== undefined ? (
        <JobBody key={job.id} job={job} />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <div aria-busy="true" aria-label="Loading the job">
          <Skeleton width="40%" height={28} mb={14} />
          <Skeleton width="70%" height={40} mb={22} />
          <Skeleton height={92} radius={12} mb={20} />
          <Skeleton height={320} radius={12} />
        </div>
      )}
    </Page>
  );
}

function JobBody({ job }: { job: JobWithSpec }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const attempts = useQuery({ ...attemptsQuery(job.id), refetchInterval: useFallbackInterval() });
  const tab = search.tab ?? "logs";
  const tries = attempts.data?.results ?? [];
  // On a phone the log stands right below the name; what describes the job comes after it.
  const phone = useMediaQuery("(max-width: 760px)", undefined, { getInitialValueInEffect: false });

  const openTab = (value: string | null) =>
    void navigate({ search: value === null || value === "logs" ? {} : { tab: value }, replace: true });

  return (
    <>
      <JobHeader job={job} />
      {phone ? null : <JobFacts job={job} attempt={tries.at(-1)} />}
      <div className={classes.cards}>
        {phone ? null : <TimelineCard job={job} attempts={tries} />}
        {job.kept === null ? null : <KeptCard jobId={job.id} kept={job.kept} attempts={tries} />}
        {job.idle === null ? null : <IdleCard idle={job.idle} />}
        {job.failed_resize === null ? null : <ResizeCard failed={job.failed_resize} />}
        {job.state === "queued" || (job.state === "active" && job.stage === "screening") ? (
          <WhyCard job={job} />
        ) : null}
        <DependencyCard job={job} />
        {job.finish === null ? null : <FinishCard finish={job.finish} />}
        {job.group !== null && job.reason === "stopped_early" ? (
          <StoppedCard job={job} sweep={job.group} />
        ) : null}
        {job.state === "failed" ? <FailureCard job={job} /> : null}
        {phone ? null : <Results job={job} />}
      </div>
      <Tabs value={tab} onChange={openTab} keepMounted={false}>
        <Tabs.List className={classes.tabs}>
          <Tabs.Tab value="logs">Logs</Tabs.Tab>
          <Tabs.Tab value="metrics">Metrics</Tabs.Tab>
          <Tabs.Tab value="attempts">
            Attempts {job.attempts > 0 ? <span className={classes.count}>{job.attempts}</span> : null}
          </Tabs.Tab>
          <Tabs.Tab value="events">Events</Tabs.Tab>
          <Tabs.Tab value="files">Files</Tabs.Tab>
          <Tabs.Tab value="spec">Spec</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="logs">
          <Logs job={job} query={attempts} />
        </Tabs.Panel>
        <Tabs.Panel value="metrics">
          {job.attempts === 0 ? (
            <div className="card">
              <Empty icon={<IconChartLine size={20} />} title="Nothing to measure yet">
                {job.state === "queued"
                  ? "What the job uses appears here as soon as it starts."
                  : "The job ended before it was started."}
              </Empty>
            </div>
          ) : (
            <Suspense fallback={<MetricsLoading charts={4} />}>
              <MetricsTab
                job={job}
                number={attemptAsked(search.attempt, job)}
                attempt={tries.find((each) => each.number === attemptAsked(search.attempt, job))}
              />
            </Suspense>
          )}
        </Tabs.Panel>
        <Tabs.Panel value="attempts">
          <AttemptsTab jobId={String(job.id)} query={attempts} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <EventsTab jobId={job.id} />
        </Tabs.Panel>
        <Tabs.Panel value="files">
          <FilesTab job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="spec">
          <Suspense fallback={<Skeleton height={240} radius={12} />}>
            <SpecTab spec={job.spec} />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
      <FairnessLine job={job} />
      {phone ? (
        <div className={classes.cards}>
          <JobFacts job={job} attempt={tries.at(-1)} />
          <TimelineCard job={job} attempts={tries} />
          <Results job={job} />
        </div>
      ) : null}
    </>
  );
}

function Results({ job }: { job: JobWithSpec }) {
  return (
    <>
      {job.attempts === 0 ? null : <TrainingCard job={job} />}
      <ScreeningCard job={job} />
      {job.efficiency === null ? null : <EfficiencyCard efficiency={job.efficiency} />}
    </>
  );
}

/** The attempt that the address names, or the latest. */
function attemptAsked(text: string | undefined, job: JobWithSpec): number {
  const asked = Number(text);
  return Number.isInteger(asked) && asked >= 1 && asked <= job.attempts ? asked : job.attempts;
}

function Logs({ job, query }: { job: JobWithSpec; query: UseQueryResult<AttemptList> }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  if (job.attempts === 0) {
    return (
      <div className="card">
        <Empty icon={<IconFileText size={20} />} title="No output yet">
          {job.state === "queued"
            ? "What the job writes appears here as soon as it starts."
            : "The job ended before it was started."}
        </Empty>
      </div>
    );
  }
  const attempt = attemptAsked(search.attempt, job);
  if (query.isPending) return <Skeleton height={360} radius={12} />;
  const ranks = query.data?.results.find((each) => each.number === attempt)?.allocations ?? [];
  const rank = search.rank !== undefined && /^\d+$/.test(search.rank) ? Number(search.rank) : undefined;
  return (
    <LogView
      jobId={job.id}
      attempt={attempt}
      attempts={job.attempts}
      ranks={ranks.length}
      size={ranks
        .filter((each) => rank === undefined || each.rank === rank)
        .reduce((sum, each) => sum + each.log_size, 0)}
      rank={rank}
      onAttempt={(value) => void navigate({ search: { attempt: String(value) }, replace: true })}
      onRank={(value) =>
        void navigate({
          search: (old) => ({ ...old, rank: value === undefined ? undefined : String(value) }),
          replace: true,
        })
      }
    />
  );
}
