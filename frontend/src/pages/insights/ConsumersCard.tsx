import { SegmentedControl, Skeleton } from "@mantine/core";
import { IconUsers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { UsageFilter } from "../../api/usage";
import { usageQuery } from "../../api/usageQueries";
import { Meter } from "../../components/Meter";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { gpuHours, percent, plural } from "../../format/amount";
import { consumersOf } from "./insights";
import classes from "./InsightsPage.module.css";

const MAX_SHOWN = 10;

/** GPU-hours by tenant or by user; each name narrows the whole page to it. */
export function ConsumersCard({ filter }: { filter: UsageFilter }) {
  const [chosen, setChosen] = useState<"tenant" | "user">("tenant");
  // Inside one tenant only its users can be compared.
  const by = filter.tenant === undefined ? chosen : "user";
  const query = useQuery(usageQuery(`${by},outcome`, filter));
  const consumers = query.data === undefined ? [] : consumersOf(query.data, by);
  const total = consumers.reduce((sum, consumer) => sum + consumer.gpuHours, 0);
  const rest = consumers.slice(MAX_SHOWN);
  return (
    <section className={`card ${classes.card}`} aria-label="GPU-hours by tenant and user">
      <SectionHead title={by === "tenant" ? "GPU-hours by tenant" : "GPU-hours by user"}>
        {filter.tenant === undefined ? (
          <SegmentedControl
            size="xs"
            aria-label="Compare"
            data={[
              { value: "tenant", label: "Tenants" },
              { value: "user", label: "Users" },
            ]}
            value={by}
            onChange={setChosen}
          />
        ) : null}
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={90} mt={12} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : consumers.length === 0 ? (
        <Empty icon={<IconUsers size={20} />} title="No GPU was used">
          In this time none of the jobs that you may see here has held a GPU.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {consumers.slice(0, MAX_SHOWN).map((consumer) => (
            <li key={consumer.name}>
              <Meter
                thin
                label={
                  <Link to="/insights" search={{ ...filter, [by]: consumer.name }} className="link">
                    {consumer.name}
                  </Link>
                }
                name={`${consumer.name}: share of all GPU time`}
                used={consumer.gpuHours}
                total={total}
                figures={
                  <>
                    <strong>{gpuHours(consumer.gpuHours)}</strong> GPU-hours ·{" "}
                    {percent(consumer.gpuHours, total)} % ·{" "}
                    {percent(consumer.wastedGpuHours, consumer.gpuHours)} % wasted
                  </>
                }
              />
            </li>
          ))}
          {rest.length === 0 ? null : (
            <li className={classes.faint}>
              {gpuHours(rest.reduce((sum, consumer) => sum + consumer.gpuHours, 0))} GPU-hours of{" "}
              {plural(rest.length, `other ${by}`)}
            </li>
          )}
        </ul>
      )}
    </section>
  );
}
