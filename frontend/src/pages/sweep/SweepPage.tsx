import { Button, Skeleton } from "@mantine/core";
import { IconArrowsShuffle, IconChevronLeft } from "@tabler/icons-react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";

import { cancelSweep, retrySweep } from "../../api/client";
import { loadPart } from "../../api/parts";
import { isMissing, sweepMembersQuery, sweepQuery, useFallbackInterval } from "../../api/queries";
import type { Sweep, SweepMember } from "../../api/types";
import { Fact } from "../../components/Fact";
import { Empty, Failed } from "../../components/Notice";
import { Page, SectionHead } from "../../components/Page";
import job from "../job/JobPage.module.css";
import { BestCard } from "./BestCard";
import { GroupHeader } from "./GroupHeader";
import { MembersTable, type TableHandle } from "./MembersTable";
import { ParallelCoordinates } from "./ParallelCoordinates";
import { RungsCard } from "./RungsCard";
import { SummaryCard } from "./SummaryCard";
import classes from "./SweepPage.module.css";
import { methodWords } from "./words";

const route = getRouteApi("/app/sweeps/$sweepId");

// The YAML writer is only needed once the spec is opened.
const SpecTab = lazy(() => loadPart(() => import("../job/SpecTab")));

export function SweepPage() {
  const { sweepId } = route.useParams();
  const id = /^\d{1,15}$/.test(sweepId) ? Number(sweepId) : 0;
  const query = useQuery({ ...sweepQuery(id), enabled: id > 0, refetchInterval: useFallbackInterval() });
  // Asked for at the same time as the sweep, not after it.
  const members = useQuery({
    ...sweepMembersQuery(id),
    enabled: id > 0,
    refetchInterval: useFallbackInterval(),
  });
  const sweep = query.data;

  if (id === 0 || (isMissing(query.error) && sweep === undefined)) {
    return (
      <Page title="Sweep">
        <Empty
          icon={<IconArrowsShuffle size={20} />}
          title={`There is no sweep ${sweepId}`}
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/sweeps" {...props} />}>
              To the sweeps
            </Button>
          }
        >
          The sweep does not exist, or you may not see it.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title={sweep === undefined ? `Sweep ${sweepId}` : sweep.name}>
      <Link to="/sweeps" className={job.back}>
        <IconChevronLeft size={15} aria-hidden="true" />
        Sweeps
      </Link>
      {sweep !== undefined ? (
        <SweepBody key={sweep.id} sweep={sweep} members={members} />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <div aria-busy="true" aria-label="Loading the sweep">
          <Skeleton width="40%" height={28} mb={14} />
          <Skeleton width="70%" height={40} mb={22} />
          <Skeleton height={160} radius={12} mb={20} />
          <Skeleton height={380} radius={12} />
        </div>
      )}
    </Page>
  );
}

function SweepBody({
  sweep,
  members,
}: {
  sweep: Sweep;
  members: UseQueryResult<{ results: SweepMember[] }>;
}) {
  const [hot, setHot] = useState<number | null>(null);
  const [specOpen, setSpecOpen] = useState(false);
  const table = useRef<TableHandle>(null);

  return (
    <>
      <GroupHeader
        kind="sweep"
        group={sweep}
        open={sweep.members.waiting + sweep.members.running + sweep.members.paused}
        retry={retrySweep}
        cancel={cancelSweep}
      >
        <Fact name="Method">{methodWords(sweep.method)}</Fact>
        <Fact name="Metric">
          {sweep.metric}, {sweep.goal === "min" ? "the smaller the better" : "the larger the better"}
        </Fact>
      </GroupHeader>
      <div className={job.cards}>
        <SummaryCard sweep={sweep} />
        {members.data === undefined ? (
          members.isError ? (
            <div className="card">
              <Failed error={members.error} onRetry={() => void members.refetch()} />
            </div>
          ) : (
            <Skeleton height={380} radius={12} />
          )
        ) : (
          <>
            <section className={`card ${classes.card}`} aria-label="Parameters and metric">
              <SectionHead title="Parameters and metric" />
              <ParallelCoordinates
                sweep={sweep}
                members={members.data.results}
                hot={hot}
                onHot={setHot}
                onPick={(member) => table.current?.show(member)}
              />
            </section>
            <div className={classes.columns}>
              <BestCard sweep={sweep} />
              {sweep.rungs.length === 0 ? null : <RungsCard sweep={sweep} />}
            </div>
            <section className={`card ${classes.tableCard}`} aria-label="Members">
              <SectionHead title="Members" />
              <MembersTable
                sweep={sweep}
                members={members.data.results}
                hot={hot}
                onHot={setHot}
                ref={table}
              />
            </section>
          </>
        )}
        <details
          className={`card ${classes.card}`}
          onToggle={(event) => setSpecOpen(event.currentTarget.open)}
        >
          <summary className={classes.specHead}>Spec</summary>
          {specOpen ? (
            <Suspense fallback={<Skeleton height={240} radius={12} />}>
              <SpecTab spec={sweep.spec} />
            </Suspense>
          ) : null}
        </details>
      </div>
    </>
  );
}
