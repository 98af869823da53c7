import { Skeleton } from "@mantine/core";
import { IconChartBar } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { useFallbackInterval, vcsQuery } from "../../api/queries";
import { useMe } from "../../app/me";
import { Meter } from "../../components/Meter";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import classes from "./OverviewPage.module.css";

/** How much of each virtual cluster's quota is in use, by GPU type: of the caller's tenants, or of all. */
export function QuotaCard({ mine }: { mine: boolean }) {
  const me = useMe();
  const query = useQuery({ ...vcsQuery, refetchInterval: useFallbackInterval() });
  const tenants = new Set(me.tenants.map((tenant) => tenant.name));
  const all = query.data?.results ?? [];
  const own = all.filter((vc) => tenants.has(vc.tenant));
  const vcs = mine ? own : all;
  return (
    <section className={`card ${classes.card}`} aria-label="Quota">
      <SectionHead title={mine ? "My quota" : "Quota of all tenants"} term="quota" />
      {query.isPending ? (
        <Skeleton height={60} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : vcs.length === 0 ? (
        <Empty icon={<IconChartBar size={20} />} title="No virtual cluster">
          There is no virtual cluster that you may use yet. Ask an operator.
        </Empty>
      ) : (
        vcs.map((vc) => (
          <div key={`${vc.tenant}/${vc.name}`} className={classes.vc}>
            <div className={classes.vcHead}>
              <Link
                to="/jobs"
                search={{ vc: vc.name, tenant: vc.tenant }}
                className={`${classes.vcName} truncate`}
              >
                <span className={classes.faint}>{vc.tenant} / </span>
                {vc.name}
              </Link>
              <span className={`${classes.faint} tabular`}>
                {vc.active} running · {vc.waiting} waiting
              </span>
            </div>
            {vc.quotas.length === 0 ? <span className={classes.faint}>No GPU quota</span> : null}
            {vc.quotas.map((quota) => (
              <Meter
                key={quota.gpu_type}
                label={<span className="mono">{quota.gpu_type}</span>}
                name={`${vc.name}, ${quota.gpu_type} in use`}
                used={quota.used - quota.opportunistic}
                total={quota.gpus}
                warnFull
              />
            ))}
          </div>
        ))
      )}
    </section>
  );
}
