import { Skeleton } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { nodesQuery, useFallbackInterval } from "../../api/queries";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { plural } from "../../format/amount";
import { concerns } from "./attention";
import classes from "./OverviewPage.module.css";

const MAX_SHOWN = 8;

/** Nodes that an operator has to look at: closed to jobs, or with unhealthy GPUs. */
export function AttentionCard() {
  const query = useQuery({ ...nodesQuery, refetchInterval: useFallbackInterval() });
  const all = concerns(query.data?.results ?? []);
  const more = all.length - MAX_SHOWN;
  return (
    <section className={`card ${classes.card}`} aria-label="Nodes that need attention">
      <SectionHead title="Nodes that need attention">
        {more > 0 ? (
          <Link to="/cluster" className="link">
            {plural(more, "more node", "more nodes")}
          </Link>
        ) : null}
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={60} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : all.length === 0 ? (
        <Empty icon={<IconCircleCheck size={20} />} title="All nodes take jobs">
          Nodes that are down, drained or cordoned, and unhealthy GPUs are listed here.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {all.slice(0, MAX_SHOWN).map(({ node, closed, why }) => (
            <li key={node} className={classes.item}>
              <Link to="/cluster" search={{ node }} className={classes.itemLink}>
                <span
                  className={classes.itemDot}
                  style={{ background: closed ? "var(--failed)" : "var(--queued)" }}
                  aria-hidden="true"
                />
                <span className={`${classes.what} truncate`}>
                  <strong className="mono">{node}</strong> <span className={classes.verb}>{why}</span>
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
