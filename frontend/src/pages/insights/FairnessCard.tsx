import { useQuery } from "@tanstack/react-query";

import type { UsageFilter } from "../../api/usage";
import { usageFairnessQuery } from "../../api/usageQueries";
import type { PoolWeek } from "../../api/types";
import { WeeksCard } from "../fairness/WeeksCard";

/** How much slower or faster the jobs and sweeps that ended were than alone with their quota, by tenant and week. */
export function FairnessCard({ filter, days }: { filter: UsageFilter; days: number }) {
  const { data } = useQuery(usageFairnessQuery(filter));
  if (data === undefined) return null;
  const weeks = data.results.flatMap(({ week, tenant, ...figures }): PoolWeek[] =>
    week === null || tenant === null ? [] : [{ week, tenant, ...figures }],
  );
  return <WeeksCard weeks={weeks} days={days} title="Slower or faster than alone" />;
}
