import { useQuery } from "@tanstack/react-query";

import { whenQuery } from "../../api/predictionQueries";
import type { Job } from "../../api/types";
import { Fact } from "../../components/Fact";
import { duration } from "../../format/time";
import { outcomeWords } from "./wait";

/** How long a started job waited, beside the forecast of its submission. */
export function WaitFact({ job }: { job: Job }) {
  const when = useQuery({ ...whenQuery(job.id), enabled: job.started_at !== null }).data;
  if (when === undefined || when.started_at === null || when.waited_s === null) return null;
  const { waited_s: waited, submitted } = when;
  return (
    <>
      <Fact name="Waited" term="wait">
        {duration(waited)}
      </Fact>
      {submitted === null ? null : (
        <Fact name="Forecast at submission">
          {submitted.says} ({outcomeWords(waited, submitted)})
        </Fact>
      )}
    </>
  );
}
