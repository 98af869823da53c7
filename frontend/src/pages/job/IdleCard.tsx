import { IconZzz } from "@tabler/icons-react";

import type { Job } from "../../api/types";
import { Ago, Time } from "../../components/Time";
import { MarkCard } from "./MarkCard";

/** Says that a running job does not use its GPUs, and what becomes of it if that goes on. */
export function IdleCard({ idle }: { idle: NonNullable<Job["idle"]> }) {
  return (
    <MarkCard icon={<IconZzz size={18} stroke={1.8} />} title="Its GPUs are idle">
      They began to <Ago at={idle.since} />.{" "}
      {idle.stop_at === null ? (
        "If the job is done, or hangs, cancel it: others wait for its GPUs."
      ) : (
        <>
          If that goes on, the job is stopped <Ago at={idle.stop_at} /> (<Time at={idle.stop_at} />
          ), with its grace period to save its work, and is not tried again.
        </>
      )}
    </MarkCard>
  );
}
