import { Button, Skeleton } from "@mantine/core";
import { IconHierarchy, IconListDetails, IconListNumbers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { poolsQuery, useFallbackInterval, vcsQuery } from "../../api/queries";
import {
  organisationsQuery,
  poolCellsQuery,
  tenantsQuery,
  vcCellsQuery,
  vcQuery,
} from "../../api/treeQueries";
import type { Vc, VcDetail } from "../../api/types";
import { Fact, Facts } from "../../components/Fact";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader, SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import { CellsCard } from "./CellsCard";
import { CellsEditor } from "./CellsEditor";
import { DelaysCard } from "./DelaysCard";
import { LoansCard } from "./LoansCard";
import { QuotaEditor, type Promised } from "./QuotaEditor";
import { ShareBar, ShareLegend } from "./ShareBar";
import { CELLS, limitWords } from "./shares";
import classes from "./VcPage.module.css";

const route = getRouteApi("/app/vcs/$name");

/** One virtual cluster: what it is promised, uses, lends and borrows, how long its jobs wait, and its limits. */
export function VcPage() {
  const { name } = route.useParams();
  const list = useQuery({ ...vcsQuery, refetchInterval: useFallbackInterval() });
  const vc = list.data?.results.find((each) => each.name === name);
  return (
    <Page title={name}>
      {vc !== undefined ? (
        <Loaded key={vc.id} vc={vc} all={list.data?.results ?? []} />
      ) : list.isPending ? (
        <Skeleton height={320} radius={12} aria-busy="true" aria-label="Loading" />
      ) : list.data === undefined ? (
        <Failed error={list.error} onRetry={() => void list.refetch()} />
      ) : (
        <Empty
          icon={<IconHierarchy size={20} />}
          title={`There is no virtual cluster ${name}`}
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/vcs" {...props} />}>
              To the virtual clusters
            </Button>
          }
        >
          It does not exist, or it belongs to a tenant that you are not in.
        </Empty>
      )}
    </Page>
  );
}

function Loaded({ vc, all }: { vc: Vc; all: readonly Vc[] }) {
  const detail = useQuery(vcQuery(vc.id));
  const pools = useQuery(poolsQuery).data?.results ?? [];
  const inCells = pools.find(({ name }) => name === vc.pool)?.admission === CELLS;
  const cells = useQuery({ ...vcCellsQuery(vc.id), enabled: inCells });
  const pool = useQuery({ ...poolCellsQuery(vc.pool), enabled: inCells });
  const promised = usePromised(vc, all);
  const siblings = all.filter(
    (each) => each.id !== vc.id && each.tenant === vc.tenant && each.pool === vc.pool && vc.may !== "read",
  );
  return (
    <>
      <PageHeader
        title={vc.name}
        sub={
          <>
            {vc.organisation === null ? "" : `${vc.organisation} / `}
            <Link to="/tenants/$name" params={{ name: vc.tenant }} className="link">
              {vc.tenant}
            </Link>
            {` · pool ${vc.pool} · ${vc.active} running · ${vc.waiting} waiting`}
          </>
        }
        actions={
          <>
            <Button
              variant="default"
              leftSection={<IconListNumbers size={16} />}
              renderRoot={(props) => <Link to="/vcs/$name/queue" params={{ name: vc.name }} {...props} />}
            >
              Queue
            </Button>
            <Button
              variant="default"
              leftSection={<IconListDetails size={16} />}
              renderRoot={(props) => (
                <Link to="/jobs" search={{ vc: vc.name, tenant: vc.tenant }} {...props} />
              )}
            >
              Jobs
            </Button>
          </>
        }
      />
      <div className={classes.cards}>
        {!inCells ? (
          <QuotaCard vc={vc} />
        ) : cells.data !== undefined ? (
          <CellsCard cells={cells.data} pool={pool.data} />
        ) : cells.isError ? (
          <div className="card">
            <Failed error={cells.error} onRetry={() => void cells.refetch()} />
          </div>
        ) : (
          <Skeleton height={160} radius={12} />
        )}
        <DelaysCard vc={vc.id} />
        {detail.data === undefined ? (
          detail.isError ? (
            <div className="card">
              <Failed error={detail.error} onRetry={() => void detail.refetch()} />
            </div>
          ) : (
            <Skeleton height={160} radius={12} />
          )
        ) : (
          <>
            <LoansCard loans={detail.data.loans} />
            <LimitsCard vc={detail.data} inCells={inCells} />
            {vc.may === "read" ? null : (
              <QuotaEditor vc={detail.data} promised={promised} siblings={siblings} inCells={inCells} />
            )}
          </>
        )}
        {vc.may === "operate" && cells.data !== undefined && pool.data !== undefined ? (
          <CellsEditor id={vc.id} cells={cells.data} pool={pool.data} />
        ) : null}
      </div>
    </>
  );
}

/** What the pool has of each GPU type, and what quotas of others promise, as far as the caller sees them. */
function usePromised(vc: Vc, all: readonly Vc[]): Promised[] {
  const operator = vc.may === "operate";
  const pools = useQuery({ ...poolsQuery, enabled: operator }).data?.results ?? [];
  const tenants = useQuery({ ...tenantsQuery, enabled: operator }).data?.results ?? [];
  const organisations = useQuery({ ...organisationsQuery, enabled: operator }).data?.results ?? [];
  const groups = [...tenants, ...organisations]
    .flatMap(({ quotas }) => quotas)
    .filter(({ pool }) => pool === vc.pool);
  const others = all
    .filter(({ id, pool }) => id !== vc.id && pool === vc.pool)
    .flatMap(({ quotas }) => quotas);
  const gpus = pools.find(({ name }) => name === vc.pool)?.gpus ?? [];
  return gpus.map(({ type, total }) => ({
    gpu_type: type,
    total,
    others: [...groups, ...others].reduce(
      (sum, quota) => sum + (quota.gpu_type === type ? quota.gpus : 0),
      0,
    ),
  }));
}

function QuotaCard({ vc }: { vc: Vc }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Quota">
      <SectionHead title="Quota" term="quota" />
      {vc.quotas.length === 0 ? <p className={classes.faint}>No GPU quota.</p> : <ShareLegend />}
      <div className={classes.bars}>
        {vc.quotas.map((quota) => (
          <ShareBar key={quota.gpu_type} quota={quota} of={vc.name} />
        ))}
      </div>
    </section>
  );
}

function LimitsCard({ vc, inCells }: { vc: VcDetail; inCells: boolean }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Limits">
      <SectionHead title="Limits and weight">
        <span className={classes.faint}>
          {vc.changed_by === "" ? (
            "as it was made"
          ) : (
            <>
              changed by {vc.changed_by}, <Ago at={vc.changed_at} />
            </>
          )}
        </span>
      </SectionHead>
      <Facts>
        <Fact name="Weight">{vc.weight}</Fact>
        {vc.quotas.map((quota) => (
          <Fact
            key={quota.gpu_type}
            name={inCells ? quota.gpu_type : `${quota.gpu_type}: ${quota.gpus} GPUs`}
          >
            {limitWords(quota, inCells)}
          </Fact>
        ))}
      </Facts>
    </section>
  );
}
