import { Button } from "@mantine/core";
import { IconDownload, IconScale, IconX } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";

import { usageCsvUrl, type UsageFilter } from "../../api/usage";
import { useMe } from "../../app/me";
import { Page, PageHeader } from "../../components/Page";
import { ConsumersCard } from "./ConsumersCard";
import { FailuresCard } from "./FailuresCard";
import { FairnessCard } from "./FairnessCard";
import { PERIODS, periodOf } from "../../format/periods";
import classes from "./InsightsPage.module.css";
import { LeastEfficientCard } from "./LeastEfficientCard";
import { SavingsCard } from "./SavingsCard";
import { Tiles } from "./Tiles";
import { UsageCard } from "./UsageCard";
import { WaitsCard } from "./WaitsCard";

const route = getRouteApi("/app/insights");

/** What GPU time was used for, and what of it came to nothing, as far as one may see it. */
export function InsightsPage() {
  const me = useMe();
  const { since, tenant, user } = route.useSearch();
  const period = periodOf(since);
  const filter: UsageFilter = { since: period.since, tenant, user };
  const manages = me.tenants.filter((tenant) => tenant.role === "manager").map((tenant) => tenant.name);
  const whose = me.is_operator
    ? "All jobs of the cluster."
    : manages.length > 0
      ? `All jobs of ${manages.join(", ")}, and your own.`
      : "Your own jobs.";
  return (
    <Page title="Insights">
      <PageHeader
        title="Insights"
        sub={`What GPU time was used for. ${whose}`}
        actions={
          <>
            <nav className={classes.periods} aria-label="Period">
              {PERIODS.map(({ since, label }) => (
                <Link
                  key={since}
                  to="/insights"
                  search={{ since, tenant, user }}
                  className={classes.period}
                  data-on={period.since === since || undefined}
                  aria-current={period.since === since ? "true" : undefined}
                  activeProps={{}}
                >
                  {label}
                </Link>
              ))}
            </nav>
            {me.is_operator ? (
              <Button
                variant="default"
                leftSection={<IconScale size={16} />}
                renderRoot={(props) => <Link to="/fairness" {...props} />}
              >
                Fairness
              </Button>
            ) : null}
            <Button
              variant="default"
              leftSection={<IconDownload size={16} />}
              component="a"
              href={usageCsvUrl(`${period.by},user,vc,gpu_type,outcome`, filter)}
            >
              CSV
            </Button>
          </>
        }
      />
      <Narrowed filter={filter} />
      <Tiles filter={filter} />
      <div className={classes.cards}>
        <UsageCard by={period.by} filter={filter} />
        <ConsumersCard filter={filter} />
        <div className={classes.columns}>
          <FailuresCard filter={filter} />
          <SavingsCard filter={filter} />
        </div>
        <WaitsCard filter={filter} />
        <LeastEfficientCard filter={filter} />
        <FairnessCard filter={filter} days={Number.parseInt(period.since)} />
      </div>
    </Page>
  );
}

/** Names the tenant and the user that all figures are narrowed to, each with a way back. */
function Narrowed({ filter }: { filter: UsageFilter }) {
  const { tenant, user } = filter;
  if (tenant === undefined && user === undefined) return null;
  return (
    <ul className={classes.narrowed} aria-label="Narrowed to">
      {tenant === undefined ? null : (
        <li>
          <Link to="/insights" search={{ ...filter, tenant: undefined }} className={classes.narrowing}>
            Tenant {tenant} <IconX size={13} aria-label="– show all tenants" />
          </Link>
        </li>
      )}
      {user === undefined ? null : (
        <li>
          <Link to="/insights" search={{ ...filter, user: undefined }} className={classes.narrowing}>
            User {user} <IconX size={13} aria-label="– show all users" />
          </Link>
        </li>
      )}
    </ul>
  );
}
