import { Skeleton } from "@mantine/core";
import { IconHierarchy } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { poolsQuery, useFallbackInterval, vcsQuery } from "../../api/queries";
import { organisationsQuery } from "../../api/treeQueries";
import type { Vc } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { PoolCellsCard } from "./PoolCellsCard";
import { ShareBar, ShareLegend } from "./ShareBar";
import { CELLS, sumWords, treeOf, type Branch } from "./shares";
import classes from "./Shares.module.css";

/** All virtual clusters that one may see, below their tenants and organisations. */
export function VcsPage() {
  const query = useQuery({ ...vcsQuery, refetchInterval: useFallbackInterval() });
  const organisations = useQuery(organisationsQuery).data?.results ?? [];
  const vcs = query.data?.results ?? [];
  const pools = useQuery(poolsQuery).data?.results ?? [];
  const used = new Set(vcs.map(({ pool }) => pool));
  const inCells = pools
    .filter(({ name, admission }) => admission === CELLS && used.has(name))
    .map(({ name }) => name);
  return (
    <Page title="Virtual clusters">
      <PageHeader title="Virtual clusters" sub={vcs.length === 0 ? undefined : sumWords(vcs)} />
      {query.isPending ? (
        <Skeleton height={260} radius={12} aria-busy="true" aria-label="Loading" />
      ) : query.data === undefined ? (
        <div className="card">
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : vcs.length === 0 ? (
        <div className="card">
          <Empty icon={<IconHierarchy size={20} />} title="No virtual cluster">
            There is no virtual cluster that you may use yet. Ask an operator.
          </Empty>
        </div>
      ) : (
        <>
          <ShareLegend inCells={inCells.length > 0} />
          <Branches branches={treeOf(vcs, organisations)} inCells={new Set(inCells)} />
          <div className={classes.pools}>
            {inCells.map((name) => (
              <PoolCellsCard key={name} pool={name} />
            ))}
          </div>
        </>
      )}
    </Page>
  );
}

function Branches({ branches, inCells }: { branches: readonly Branch[]; inCells: ReadonlySet<string> }) {
  return branches.map((branch) => (
    <section
      key={branch.organisation ?? ""}
      className={classes.branch}
      aria-label={branch.organisation ?? "Tenants without an organisation"}
    >
      {branch.organisation === null ? null : (
        <h2 className={classes.organisation}>
          <span className={classes.faint}>Organisation</span> {branch.organisation}
        </h2>
      )}
      <div className={branch.organisation === null ? undefined : classes.below}>
        {branch.tenants.map(({ name, vcs }) => (
          <section key={name} className={`card ${classes.tenant}`} aria-label={`Tenant ${name}`}>
            <div className={classes.tenantHead}>
              <h2>
                <Link to="/tenants/$name" params={{ name }} className="link">
                  {name}
                </Link>
              </h2>
              <span className={classes.faint}>{sumWords(vcs)}</span>
            </div>
            <ul>
              {vcs.map((vc) => (
                <VcRow key={vc.name} vc={vc} inCells={inCells} />
              ))}
            </ul>
          </section>
        ))}
        <Branches branches={branch.below} inCells={inCells} />
      </div>
    </section>
  ));
}

function VcRow({ vc, inCells }: { vc: Vc; inCells: ReadonlySet<string> }) {
  return (
    <li className={classes.vc}>
      <div className={classes.vcName}>
        <Link to="/vcs/$name" params={{ name: vc.name }} className={`link truncate ${classes.strong}`}>
          {vc.name}
        </Link>
        <span className={classes.faint}>
          pool {vc.pool} · {vc.active} running · {vc.waiting} waiting
        </span>
      </div>
      <div className={classes.bars}>
        {vc.quotas.length === 0 ? (
          <span className={classes.faint}>
            {inCells.has(vc.pool) ? "Has cells in the place of a quota" : "No GPU quota"}
          </span>
        ) : null}
        {vc.quotas.map((quota) => (
          <ShareBar key={quota.gpu_type} quota={quota} of={vc.name} />
        ))}
      </div>
    </li>
  );
}
