import { IconBug } from "@tabler/icons-react";

import type { Attempt, Job } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { Ago, Time } from "../../components/Time";
import { reasonWords } from "../../format/words";
import { shellCommand } from "./commands";
import classes from "./KeptCard.module.css";
import { MarkCard } from "./MarkCard";

interface Props {
  jobId: number;
  kept: NonNullable<Job["kept"]>;
  attempts: readonly Attempt[];
}

/** Says that a job has failed, until when what it ran in is kept, and how to get in. */
export function KeptCard({ jobId, kept, attempts }: Props) {
  const ranks = attempts.at(-1)?.allocations ?? [];
  const rank = ranks.length > 1 ? ranks.find((each) => each.observed === "kept")?.rank : undefined;
  const command = shellCommand(jobId, rank);
  return (
    <MarkCard icon={<IconBug size={18} stroke={1.8} />} title="It failed, and is kept for you to look at">
      {reasonWords(kept.reason)}
      {kept.exit_code === null ? "" : `, exit code ${kept.exit_code}`}. Its files, GPUs and limits stay as
      they were; that is over <Ago at={kept.until} /> (<Time at={kept.until} />
      ), when its time limit is reached, or when it is cancelled. Then it ends as it failed.
      <span className={classes.command}>
        <code>{command}</code>
        <CopyButton text={command} label="Copy the command" />
      </span>
    </MarkCard>
  );
}
