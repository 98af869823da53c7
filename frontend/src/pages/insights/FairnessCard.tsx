import { useQuery } from "@tanstack/react-query";

import type { UsageFilter } from "../../api/usage";
import { usageFairnessQuery } from "../../api/usageQueries";
import { WeeksCard } from "../fairness/WeeksCard";

/** How much slower or faster the jobs and sweeps that ended were than alone with their quota, by tenant and by week. */
export function FairnessCard({ filter, days }: { filter: UsageFilter; days: number }) {
  const tenants = useQuery(usageFairnessQuery("tenant", filter)).data?.results;
  const weeks = useQuery(usageFairnessQuery("week", filter)).data?.results;
  // Without a job that has ended there is nothing to tell.
  if (tenants === undefined || weeks === undefined || tenants.length === 0) return null;
  return <WeeksCard tenants={tenants} weeks={weeks} days={days} title="Slower or faster than alone" />;
}
