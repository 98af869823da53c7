import { Button, Skeleton } from "@mantine/core";
import { IconChevronLeft, IconStack2 } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { cancelArray, retryArray } from "../../api/client";
import { loadPart } from "../../api/parts";
import { arrayMembersQuery, arrayQuery, isMissing, useFallbackInterval } from "../../api/queries";
import type { Array } from "../../api/types";
import { Fact } from "../../components/Fact";
import { Empty, Failed } from "../../components/Notice";
import { Page, SectionHead } from "../../components/Page";
import { gpuHours } from "../../format/amount";
import job from "../job/JobPage.module.css";
import { GroupHeader } from "../sweep/GroupHeader";
import { MemberStates } from "../sweep/MemberStates";
import sweep from "../sweep/SweepPage.module.css";
import classes from "./ArrayPage.module.css";
import { MemberGrid } from "./MemberGrid";

const route = getRouteApi("/app/arrays/$arrayId");

// The YAML writer is only needed once the spec is opened.
const SpecTab = lazy(() => loadPart(() => import("../job/SpecTab")));

export function ArrayPage() {
  const { arrayId } = route.useParams();
  const id = /^\d{1,15}$/.test(arrayId) ? Number(arrayId) : 0;
  const query = useQuery({ ...arrayQuery(id), enabled: id > 0, refetchInterval: useFallbackInterval() });
  // Asked for at the same time as the array, not after it.
  useInfiniteQuery({ ...arrayMembersQuery(id), enabled: id > 0 });
  const array = query.data;

  if (id === 0 || (isMissing(query.error) && array === undefined)) {
    return (
      <Page title="Array">
        <Empty
          icon={<IconStack2 size={20} />}
          title={`There is no array ${arrayId}`}
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/jobs" {...props} />}>
              To the jobs
            </Button>
          }
        >
          The array does not exist, or you may not see it.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title={array === undefined ? `Array ${arrayId}` : array.name}>
      <Link to="/jobs" className={job.back}>
        <IconChevronLeft size={15} aria-hidden="true" />
        Jobs
      </Link>
      {array !== undefined ? (
        <ArrayBody key={array.id} array={array} />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <div aria-busy="true" aria-label="Loading the array">
          <Skeleton width="40%" height={28} mb={14} />
          <Skeleton height={160} radius={12} mb={20} />
          <Skeleton height={380} radius={12} />
        </div>
      )}
    </Page>
  );
}

function ArrayBody({ array }: { array: Array }) {
  const [specOpen, setSpecOpen] = useState(false);
  return (
    <>
      <GroupHeader
        kind="array"
        group={array}
        open={array.members.waiting + array.members.running}
        retry={retryArray}
        cancel={cancelArray}
      >
        <Fact name="Indices">
          {array.first_index} to {array.last_index}
        </Fact>
      </GroupHeader>
      <div className={job.cards}>
        <section className={`card ${classes.summary}`} aria-label="Summary">
          <MemberStates members={array.members} />
          <div>
            <h2 className={sweep.label}>GPU-hours</h2>
            <p className={sweep.big}>{gpuHours(array.gpu_hours)}</p>
          </div>
        </section>
        <section className={`card ${sweep.card}`} aria-label="Members">
          <SectionHead title="Members" />
          <MemberGrid array={array} />
        </section>
        <details className={`card ${sweep.card}`} onToggle={(event) => setSpecOpen(event.currentTarget.open)}>
          <summary className={sweep.specHead}>Spec</summary>
          {specOpen ? (
            <Suspense fallback={<Skeleton height={240} radius={12} />}>
              <SpecTab spec={array.spec} />
            </Suspense>
          ) : null}
        </details>
      </div>
    </>
  );
}
