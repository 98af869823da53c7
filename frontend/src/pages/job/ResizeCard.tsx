import { IconArrowsDiagonalMinimize } from "@tabler/icons-react";

import type { JobWithSpec } from "../../api/types";
import { Ago, Time } from "../../components/Time";
import { plural } from "../../format/amount";
import { MarkCard } from "./MarkCard";

/** Says that a resize did not come back, and in which size the job goes on until when. */
export function ResizeCard({ failed }: { failed: NonNullable<JobWithSpec["failed_resize"]> }) {
  const grew = failed.wanted > failed.before;
  return (
    <MarkCard
      icon={<IconArrowsDiagonalMinimize size={18} stroke={1.8} />}
      title={`${grew ? "Growing" : "Shrinking"} from ${failed.before} to ${plural(failed.wanted, "GPU")} failed`}
    >
      <Time at={failed.at} />: {failed.because}. The job keeps {plural(failed.before, "GPU")}, and may be
      resized again <Ago at={failed.until} />.
    </MarkCard>
  );
}
