import { NativeSelect, SegmentedControl, Skeleton } from "@mantine/core";
import { IconServer } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";

import { loadPart } from "../../api/parts";
import { nodesQuery, vcsQuery } from "../../api/queries";
import type { Node } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { percent, plural } from "../../format/amount";
import { humanize } from "../../format/words";
import classes from "./ClusterPage.module.css";
import { gpusByType, meanUtilization } from "./figures";
import { GpuCardHost } from "./GpuCard";
import { Legend } from "./Legend";
import { NodeCard } from "./NodeCard";
import { COLOURINGS, tenantColours, type Colouring } from "./colouring";

const route = getRouteApi("/app/cluster");

const NodeDrawer = lazy(async () => ({
  default: (await loadPart(() => import("./NodeDrawer"))).NodeDrawer,
}));

/** Utilisation changes without an event, so the page asks for it. */
const READING_INTERVAL_MS = 5000;

interface Group {
  name: string;
  nodes: Node[];
}

function rackWords(rack: string): string {
  if (rack === "") return "No rack";
  return /^rack\b/i.test(rack) ? humanize(rack) : `Rack ${rack}`;
}

/** Nodes side by side that stand side by side: by rack where racks are known, else by pool. */
function groupsOf(nodes: readonly Node[]): Group[] {
  const racked = nodes.some((node) => node.rack !== "");
  const groups = new Map<string, Node[]>();
  for (const node of nodes) {
    const name = racked ? rackWords(node.rack) : `Pool ${node.pool}`;
    groups.set(name, [...(groups.get(name) ?? []), node]);
  }
  return [...groups]
    .map(([name, members]) => ({ name, nodes: members }))
    .sort((one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }));
}

function summary(nodes: readonly Node[]): string {
  const gpus = nodes.flatMap((node) => node.gpus);
  const used = gpusByType(nodes).reduce((sum, type) => sum + type.used, 0);
  const mean = meanUtilization(gpus.filter((gpu) => gpu.busy));
  const parts = [
    `${plural(gpus.length, "GPU")} on ${plural(nodes.length, "node")}`,
    `${used} in use (${percent(used, gpus.length)}%)${mean === null ? "" : `, their mean utilization ${mean}%`}`,
  ];
  return parts.join(" · ");
}

export function ClusterPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({ ...nodesQuery, refetchInterval: READING_INTERVAL_MS });
  const all = useMemo(() => query.data?.results ?? [], [query.data]);
  const colouring: Colouring = COLOURINGS.find((each) => each === search.color) ?? "state";
  const pools = [...new Set(all.map((node) => node.pool))].sort();
  const pool = search.pool !== undefined && pools.includes(search.pool) ? search.pool : undefined;
  const nodes = useMemo(() => all.filter((node) => pool === undefined || node.pool === pool), [all, pool]);
  // Of all tenants that may be seen, not of those with jobs now: a colour must not change when a job starts.
  const vcs = useQuery({ ...vcsQuery, enabled: colouring === "tenant" }).data;
  const tenants = useMemo(() => tenantColours(vcs?.results.map((vc) => vc.tenant) ?? []), [vcs]);
  const groups = useMemo(() => groupsOf(nodes), [nodes]);
  const chosen = all.find((node) => node.name === search.node);
  // Loaded when a node is first looked at, and kept then: it slides out when it is closed.
  const [drawn, setDrawn] = useState(false);
  if (chosen !== undefined && !drawn) setDrawn(true);

  return (
    <Page title="Cluster">
      <PageHeader
        title="Cluster"
        sub={all.length === 0 ? undefined : summary(nodes)}
        actions={
          <>
            {pools.length > 1 ? (
              <NativeSelect
                aria-label="Pool"
                w={150}
                data={[{ value: "", label: "All pools" }, ...pools]}
                value={pool ?? ""}
                onChange={({ currentTarget: { value } }) =>
                  void navigate({ search: (old) => ({ ...old, pool: value === "" ? undefined : value }) })
                }
              />
            ) : null}
            <SegmentedControl
              aria-label="Colour by"
              data={[
                { value: "state", label: "State" },
                { value: "job", label: "Job" },
                { value: "tenant", label: "Tenant" },
                { value: "utilisation", label: "Utilisation" },
              ]}
              value={colouring}
              onChange={(value) =>
                void navigate({
                  search: (old) => ({ ...old, color: value === "state" ? undefined : value }),
                  replace: true,
                })
              }
            />
          </>
        }
      />
      {query.isPending ? (
        <div className={classes.grid} aria-busy="true" aria-label="Loading nodes">
          {Array.from({ length: 6 }, (_, index) => (
            <Skeleton key={index} height={158} radius={12} />
          ))}
        </div>
      ) : query.data === undefined ? (
        <div className="card">
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : all.length === 0 ? (
        <div className="card">
          <Empty icon={<IconServer size={20} />} title="No node has joined yet">
            Nodes appear here as soon as their agent registers.
          </Empty>
        </div>
      ) : (
        <GpuCardHost>
          <Legend colouring={colouring} tenants={tenants} />
          {groups.map((group) => (
            <section key={group.name} aria-label={group.name} className={classes.group}>
              {groups.length > 1 ? <h2 className={classes.groupName}>{group.name}</h2> : null}
              <div className={classes.grid}>
                {group.nodes.map((node) => (
                  <NodeCard
                    key={node.name}
                    node={node}
                    colouring={colouring}
                    tenants={tenants}
                    onOpen={() => void navigate({ search: (old) => ({ ...old, node: node.name }) })}
                  />
                ))}
              </div>
            </section>
          ))}
        </GpuCardHost>
      )}
      {drawn ? (
        <Suspense fallback={null}>
          <NodeDrawer
            node={chosen}
            onClose={() => void navigate({ search: (old) => ({ ...old, node: undefined }) })}
          />
        </Suspense>
      ) : null}
    </Page>
  );
}
