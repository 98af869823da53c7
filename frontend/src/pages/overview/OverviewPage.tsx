import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import { Page, PageHeader } from "../../components/Page";
import { ActivityCard } from "./Activity";
import { ClusterCard } from "./ClusterCard";
import classes from "./OverviewPage.module.css";
import { QuotaCard } from "./QuotaCard";
import { StateTiles } from "./StateTiles";

export function OverviewPage() {
  return (
    <Page title="Overview">
      <PageHeader
        title="Overview"
        actions={
          <Button
            leftSection={<IconPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" {...props} />}
          >
            Submit job
          </Button>
        }
      />
      <StateTiles />
      <div className={classes.columns}>
        <ActivityCard />
        <div className={classes.column}>
          <QuotaCard />
          <ClusterCard />
        </div>
      </div>
    </Page>
  );
}
