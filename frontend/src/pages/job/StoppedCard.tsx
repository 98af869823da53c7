import { IconScissors } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { Job } from "../../api/types";
import { sentence } from "../../format/words";
import { MarkCard } from "./MarkCard";

/** Says why its sweep stopped a member early. */
export function StoppedCard({ job, sweep }: { job: Job; sweep: NonNullable<Job["group"]> }) {
  return (
    <MarkCard icon={<IconScissors size={18} stroke={1.8} />} title="Stopped by its sweep">
      {job.reason_detail === null || job.reason_detail === "" ? null : `${sentence(job.reason_detail)}. `}
      {job.attempts > 0 ? "Its GPUs are free for other jobs. " : "It had not started. "}
      <Link to="/sweeps/$sweepId" params={{ sweepId: String(sweep.id) }} className="link">
        See the sweep
      </Link>
    </MarkCard>
  );
}
