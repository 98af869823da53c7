import { Button, NativeSelect, Skeleton } from "@mantine/core";
import { IconScale } from "@tabler/icons-react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { poolsQuery, useFallbackInterval } from "../../api/queries";
import { decisionsQuery, policiesQuery, poolFairnessQuery } from "../../api/usageQueries";
import { useMe } from "../../app/me";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { AuctionsCard } from "./AuctionsCard";
import classes from "./FairnessPage.module.css";
import { VerdictsCard } from "./VerdictsCard";
import { WeeksCard } from "./WeeksCard";

const route = getRouteApi("/app/fairness");

/** For operators: whether a pool is shared fairly, and who pays for whom. */
export function FairnessPage() {
  const me = useMe();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const pools = useQuery({ ...poolsQuery, enabled: me.is_operator });
  const names = pools.data?.results.map(({ name }) => name) ?? [];
  const pool = names.find((name) => name === search.pool) ?? names[0];

  if (!me.is_operator) {
    return (
      <Page title="Fairness">
        <Empty
          icon={<IconScale size={20} />}
          title="Only operators see how pools are shared"
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/insights" {...props} />}>
              To the insights
            </Button>
          }
        >
          The page of a job or a sweep says how much slower it is than on its own GPUs.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Fairness">
      <PageHeader
        title="Fairness"
        sub="What sharing a pool costs its tenants."
        actions={
          names.length < 2 ? undefined : (
            <NativeSelect
              aria-label="Pool"
              data={names}
              value={pool ?? ""}
              onChange={(event) => {
                const chosen = event.currentTarget.value;
                void navigate({ search: (old) => ({ ...old, pool: chosen }) });
              }}
            />
          )
        }
      />
      {pool !== undefined ? (
        <PoolFairness key={pool} pool={pool} />
      ) : pools.isError ? (
        <Failed error={pools.error} onRetry={() => void pools.refetch()} />
      ) : pools.isPending ? (
        <Skeleton height={320} radius={12} />
      ) : (
        <Empty icon={<IconScale size={20} />} title="There is no pool yet" />
      )}
    </Page>
  );
}

function PoolFairness({ pool }: { pool: string }) {
  const { policy } = route.useSearch();
  const navigate = route.useNavigate();
  const fairness = useQuery(poolFairnessQuery(pool, policy));
  const policies = useQuery(policiesQuery);
  const decisions = useQuery({ ...decisionsQuery(pool), refetchInterval: useFallbackInterval() });
  const compare = (name: string) =>
    void navigate({ search: (old) => ({ ...old, policy: name === "" ? undefined : name }), replace: true });
  return (
    <div className={classes.cards}>
      {fairness.data === undefined ? (
        <Part query={fairness} />
      ) : (
        <>
          <VerdictsCard
            verdicts={fairness.data.verdicts}
            policies={policies.data ?? []}
            other={policy}
            busy={fairness.isPlaceholderData}
            onOther={compare}
          />
          <WeeksCard
            tenants={fairness.data.tenants}
            weeks={fairness.data.weeks}
            days={fairness.data.days}
            now={fairness.data.now}
          />
        </>
      )}
      {decisions.data === undefined ? (
        <Part query={decisions} />
      ) : (
        <AuctionsCard decisions={decisions.data} />
      )}
    </div>
  );
}

/** Stands where a part of the page will be, or could not be loaded. */
function Part({ query }: { query: UseQueryResult }) {
  return query.isError ? (
    <div className="card">
      <Failed error={query.error} onRetry={() => void query.refetch()} />
    </div>
  ) : (
    <Skeleton height={240} radius={12} aria-busy="true" aria-label="Loading" />
  );
}
