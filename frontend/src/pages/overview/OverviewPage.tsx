import { Button, SegmentedControl } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useMe } from "../../app/me";
import { Page, PageHeader } from "../../components/Page";
import { ActivityCard } from "./Activity";
import { AttentionCard } from "./AttentionCard";
import { ClusterCard } from "./ClusterCard";
import classes from "./OverviewPage.module.css";
import { QuotaCard } from "./QuotaCard";
import { StateTiles } from "./StateTiles";

const route = getRouteApi("/app/");

/** The caller's own jobs and quota; operators see the whole cluster first, and what needs them. */
export function OverviewPage() {
  const me = useMe();
  const navigate = route.useNavigate();
  const mine = !me.is_operator || route.useSearch().whose === "mine";
  return (
    <Page title="Overview">
      <PageHeader
        title="Overview"
        actions={
          <>
            {me.is_operator ? (
              <SegmentedControl
                aria-label="Whose jobs"
                data={[
                  { value: "all", label: "Whole cluster" },
                  { value: "mine", label: "Mine" },
                ]}
                value={mine ? "mine" : "all"}
                onChange={(value) =>
                  void navigate({ search: { whose: value === "mine" ? value : undefined }, replace: true })
                }
              />
            ) : null}
            <Button
              leftSection={<IconPlus size={16} />}
              renderRoot={(props) => <Link to="/submit" {...props} />}
            >
              Submit job
            </Button>
          </>
        }
      />
      <StateTiles mine={mine} />
      <div className={classes.columns}>
        <div className={classes.column}>
          {mine ? null : <AttentionCard />}
          <ActivityCard mine={mine} />
        </div>
        <div className={classes.column}>
          <QuotaCard mine={mine} />
          <ClusterCard />
        </div>
      </div>
    </Page>
  );
}
