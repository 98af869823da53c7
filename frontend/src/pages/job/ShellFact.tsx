import type { Attempt, JobWithSpec } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { Fact } from "../../components/Fact";
import { shellCommand } from "./commands";
import classes from "./JobPage.module.css";

interface Props {
  job: Pick<JobWithSpec, "id" | "desired" | "shells">;
  attempt: Pick<Attempt, "state"> | undefined;
}

/** The command that opens a shell in rank 0 while the job runs, where its pool allows shells. */
export function ShellFact({ job, attempt }: Props) {
  if (!job.shells || attempt?.state !== "running" || job.desired === "stop") return null;
  const command = shellCommand(job.id);
  return (
    <Fact name="Shell">
      <span className={classes.command}>
        <code>{command}</code>
        <CopyButton text={command} label="Copy the command" />
      </span>
    </Fact>
  );
}
