import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";

import { usageCsvUrl } from "../../api/client";
import { useMe } from "../../app/me";
import { Page, PageHeader } from "../../components/Page";
import { FailuresCard } from "./FailuresCard";
import { PERIODS, periodOf } from "./insights";
import classes from "./InsightsPage.module.css";
import { LeastEfficientCard } from "./LeastEfficientCard";
import { SavingsCard } from "./SavingsCard";
import { Tiles } from "./Tiles";
import { UsageCard } from "./UsageCard";

const route = getRouteApi("/app/insights");

/** What GPU time was used for, and what of it came to nothing, as far as one may see it. */
export function InsightsPage() {
  const me = useMe();
  const period = periodOf(route.useSearch().since);
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
                  search={{ since }}
                  className={classes.period}
                  data-on={period.since === since || undefined}
                  aria-current={period.since === since ? "true" : undefined}
                  activeProps={{}}
                >
                  {label}
                </Link>
              ))}
            </nav>
            <Button
              variant="default"
              leftSection={<IconDownload size={16} />}
              component="a"
              href={usageCsvUrl(`${period.by},user,vc,gpu_type,outcome`, period.since)}
            >
              CSV
            </Button>
          </>
        }
      />
      <Tiles period={period} />
      <div className={classes.cards}>
        <UsageCard period={period} />
        <div className={classes.columns}>
          <FailuresCard period={period} />
          <SavingsCard period={period} />
        </div>
        <LeastEfficientCard period={period} />
      </div>
    </Page>
  );
}
