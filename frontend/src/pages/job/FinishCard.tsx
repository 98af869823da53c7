import { IconClockBolt } from "@tabler/icons-react";

import type { JobWithSpec } from "../../api/types";
import { MarkCard } from "./MarkCard";

/** Says on which GPU type a waiting job would finish first, and when it would start on each. */
export function FinishCard({ finish }: { finish: NonNullable<JobWithSpec["finish"]> }) {
  return (
    <MarkCard
      icon={<IconClockBolt size={18} stroke={1.8} />}
      title={finish.summary === "" ? "When it would start on each GPU type" : finish.summary}
    >
      {finish.detail} Running jobs are taken to end as expected; jobs ahead of it in the queue are not
      counted.
    </MarkCard>
  );
}
