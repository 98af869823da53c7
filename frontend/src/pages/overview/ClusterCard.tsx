import { Skeleton } from "@mantine/core";
import { IconServer } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { nodesQuery, useFallbackInterval } from "../../api/queries";
import { useMe } from "../../app/me";
import { Meter } from "../../components/Meter";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { percent, plural } from "../../format/amount";
import { gpusByType, isUsable } from "../cluster/figures";
import classes from "./OverviewPage.module.css";

/** More squares than this say less than the figures beside them. */
const MAX_SQUARES = 512;

/** How busy the whole cluster is. */
export function ClusterCard() {
  const me = useMe();
  const query = useQuery({ ...nodesQuery, refetchInterval: useFallbackInterval() });
  const nodes = query.data?.results ?? [];
  const types = gpusByType(nodes);
  const total = types.reduce((sum, type) => sum + type.total, 0);
  const used = types.reduce((sum, type) => sum + type.used, 0);
  const down = nodes.filter((node) => !isUsable(node)).length;
  return (
    <section className={`card ${classes.card}`} aria-label="Cluster">
      <SectionHead title="Cluster">
        <Link to="/cluster" className="link">
          Every GPU
        </Link>
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={90} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : nodes.length === 0 ? (
        <Empty icon={<IconServer size={20} />} title="No node has joined yet">
          Nodes appear here as soon as their agent registers.
        </Empty>
      ) : (
        <>
          <div className={classes.big}>
            <span className={classes.bigFigure}>{percent(used, total)}%</span>
            <span className={classes.faint}>
              of {plural(total, "GPU")} in use on {plural(nodes.length, "node")}
              {down > 0 ? `, ${down} not available` : ""}
            </span>
          </div>
          {total <= MAX_SQUARES ? (
            <div className={classes.mini} aria-hidden="true">
              {nodes.flatMap((node) =>
                node.gpus.map((gpu) => (
                  <i
                    key={gpu.uuid}
                    data-busy={gpu.busy || undefined}
                    data-mine={gpu.jobs.some((job) => job.owner === me.username) || undefined}
                    data-bad={!gpu.healthy || node.health === "down" || undefined}
                    data-closed={!isUsable(node) || undefined}
                  />
                )),
              )}
            </div>
          ) : null}
          <div className={classes.types}>
            {types.map((type) => (
              <Meter
                key={type.name}
                label={<span className="mono">{type.name}</span>}
                name={`${type.name} in use`}
                used={type.used}
                total={type.total}
              />
            ))}
          </div>
        </>
      )}
    </section>
  );
}
