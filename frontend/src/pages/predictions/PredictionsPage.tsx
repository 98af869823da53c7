import { NativeSelect, Skeleton } from "@mantine/core";
import { IconTargetArrow } from "@tabler/icons-react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { runTimeRecordQuery, waitRecordQuery } from "../../api/predictionQueries";
import { poolsQuery } from "../../api/queries";
import type { WaitRecord } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import insights from "../insights/InsightsPage.module.css";
import { CoverageCard } from "./CoverageCard";
import { DriftCard } from "./DriftCard";
import { EstimatesCard } from "./EstimatesCard";
import { MissesCard } from "./MissesCard";
import classes from "./PredictionsPage.module.css";
import { SPANS, spanOf } from "./record";
import { ReliabilityCard } from "./ReliabilityCard";
import { RunTimesCard } from "./RunTimesCard";
import { Tiles } from "./Tiles";
import { WeeksCard } from "./WeeksCard";

const route = getRouteApi("/app/predictions");

/** How right forecasts of waits and estimates of run times were. */
export function PredictionsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const pools = useQuery(poolsQuery);
  const names = pools.data?.results.map(({ name }) => name) ?? [];
  const pool = names.find((name) => name === search.pool) ?? names[0];
  const weeks = spanOf(search.weeks);
  return (
    <Page title="Predictions">
      <PageHeader
        title="Predictions"
        sub="When jobs were forecast to start and how long to run, against what came of it."
        actions={
          <>
            <nav className={insights.periods} aria-label="Period">
              {SPANS.map((each) => (
                <Link
                  key={each}
                  to="/predictions"
                  search={{ ...search, weeks: String(each) }}
                  className={insights.period}
                  data-on={each === weeks || undefined}
                  aria-current={each === weeks ? "true" : undefined}
                  activeProps={{}}
                >
                  {each} weeks
                </Link>
              ))}
            </nav>
            {names.length < 2 ? null : (
              <NativeSelect
                aria-label="Pool"
                data={names}
                value={pool ?? ""}
                onChange={(event) => {
                  const chosen = event.currentTarget.value;
                  void navigate({ search: (old) => ({ ...old, pool: chosen }) });
                }}
              />
            )}
          </>
        }
      />
      <div className={classes.cards}>
        {pool !== undefined ? (
          <Waits key={pool} pool={pool} weeks={weeks} />
        ) : pools.isError ? (
          <Failed error={pools.error} onRetry={() => void pools.refetch()} />
        ) : pools.isPending ? (
          <Skeleton height={320} radius={12} />
        ) : (
          <Empty icon={<IconTargetArrow size={20} />} title="There is no pool yet" />
        )}
        <RunTimes weeks={weeks} />
      </div>
    </Page>
  );
}

function Waits({ pool, weeks }: { pool: string; weeks: number }) {
  const query = useQuery(waitRecordQuery(pool, weeks));
  const record = query.data;
  if (record === undefined) return <Part query={query} height={360} />;
  return record.total === null ? <NoWaits record={record} /> : <WaitCards record={record} />;
}

function NoWaits({ record }: { record: WaitRecord }) {
  return (
    <section className="card" aria-label="Waits">
      <Empty icon={<IconTargetArrow size={20} />} title="No forecast of a wait can be judged yet">
        {record.unknown === "" ? "" : `In pool ${record.pool} ${record.unknown}. `}A forecast is judged when
        its job starts, or has been able to for 10 minutes.
      </Empty>
    </section>
  );
}

function WaitCards({ record }: { record: WaitRecord }) {
  return (
    <>
      <DriftCard drift={record.drift} />
      <Tiles record={record} />
      <div className={classes.columns}>
        <ReliabilityCard bins={record.reliability} />
        <CoverageCard weeks={record.weeks} />
      </div>
      <WeeksCard record={record} />
      <MissesCard misses={record.worst} />
    </>
  );
}

function RunTimes({ weeks }: { weeks: number }) {
  const query = useQuery(runTimeRecordQuery(weeks));
  if (query.data === undefined) return <Part query={query} height={240} />;
  return (
    <>
      <RunTimesCard record={query.data} />
      <EstimatesCard estimates={query.data.estimates} />
    </>
  );
}

/** Stands where a part of the page will be, or could not be loaded. */
function Part({ query, height }: { query: UseQueryResult; height: number }) {
  return query.isError ? (
    <div className="card">
      <Failed error={query.error} onRetry={() => void query.refetch()} />
    </div>
  ) : (
    <Skeleton height={height} radius={12} aria-busy="true" aria-label="Loading" />
  );
}
