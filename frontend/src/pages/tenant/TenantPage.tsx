import { Button, Skeleton } from "@mantine/core";
import { IconUsersGroup } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { tenantsQuery } from "../../api/treeQueries";
import type { Tenant } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader, SectionHead } from "../../components/Page";
import { Label } from "../../components/StateChip";
import { plural } from "../../format/amount";
import { CapsCard } from "./CapsCard";
import classes from "./TenantPage.module.css";

const route = getRouteApi("/app/tenants/$name");

/** One tenant: its virtual clusters, its members, and what each of them may have at most. */
export function TenantPage() {
  const { name } = route.useParams();
  const query = useQuery(tenantsQuery);
  const tenant = query.data?.results.find((each) => each.name === name);
  return (
    <Page title={name}>
      {tenant !== undefined ? (
        <Loaded key={tenant.id} tenant={tenant} />
      ) : query.isPending ? (
        <Skeleton height={320} radius={12} aria-busy="true" aria-label="Loading" />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Empty
          icon={<IconUsersGroup size={20} />}
          title={`There is no tenant ${name}`}
          alone
          action={
            <Button variant="default" renderRoot={(props) => <Link to="/vcs" {...props} />}>
              To the virtual clusters
            </Button>
          }
        >
          It does not exist, or you are not one of its members.
        </Empty>
      )}
    </Page>
  );
}

function Loaded({ tenant }: { tenant: Tenant }) {
  const above = tenant.organisation === null ? "No organisation" : `Organisation ${tenant.organisation}`;
  return (
    <>
      <PageHeader title={tenant.name} sub={`Tenant · ${above} · weight ${tenant.weight}`} />
      <div className={classes.cards}>
        <section className={`card ${classes.card}`} aria-label="Virtual clusters">
          <SectionHead title="Virtual clusters" term="virtualCluster" />
          <ul className={classes.list}>
            {tenant.vcs.map((vc) => (
              <li key={vc.id}>
                <Link to="/vcs/$name" params={{ name: vc.name }} className="link">
                  {vc.name}
                </Link>{" "}
                <span className={classes.faint}>pool {vc.pool}</span>
              </li>
            ))}
            {tenant.quotas.map((quota) => (
              <li key={`${quota.pool} ${quota.gpu_type}`} className={classes.faint}>
                {plural(quota.gpus, "GPU")} of type {quota.gpu_type} in pool {quota.pool} for all of them
                together
              </li>
            ))}
          </ul>
        </section>
        <section className={`card ${classes.card}`} aria-label="Members">
          <SectionHead title={plural(tenant.members.length, "member")} />
          <div className={classes.labels}>
            {tenant.members.map(({ username, role }) => (
              <Label key={username}>{role === "manager" ? `${username} · manager` : username}</Label>
            ))}
          </div>
        </section>
        <CapsCard tenant={tenant} />
      </div>
    </>
  );
}
