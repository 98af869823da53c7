import { Button } from "@mantine/core";
import { IconCopyPlus, IconPlayerStop, IconRefresh } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { messageOf } from "../../api/problem";
import type { Array, Sweep } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Fact, Facts } from "../../components/Fact";
import { GroupLink } from "../../components/GroupLink";
import { GroupStateChip } from "../../components/StateChip";
import { Ago, Elapsed } from "../../components/Time";
import { toast } from "../../components/toast";
import { plural } from "../../format/amount";
import job from "../job/JobPage.module.css";
import classes from "./SweepPage.module.css";

interface Props {
  kind: "array" | "sweep";
  group: Array | Sweep;
  /** How many members have not ended. */
  open: number;
  retry: (id: number) => Promise<{ retried: number }>;
  cancel: (id: number) => Promise<unknown>;
  /** The facts that only this kind of group has. */
  children: ReactNode;
}

/** The name of an array or a sweep, its state, what can be done with it, and the facts about it. */
export function GroupHeader({ kind, group, open, retry, cancel, children }: Props) {
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);

  const act = async (call: () => Promise<string>) => {
    try {
      toast("done", await call());
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: [`${kind}s`] });
  };
  const runAgain = () =>
    act(async () => {
      const { retried } = await retry(group.id);
      return `${plural(retried, "member")} of ${kind} #${group.id} ${retried === 1 ? "runs" : "run"} again`;
    });
  const cancelAll = () =>
    act(async () => {
      await cancel(group.id);
      return `${kind === "array" ? "Array" : "Sweep"} #${group.id} is being cancelled`;
    });

  return (
    <header>
      <div className={job.header}>
        <div className={job.titleRow}>
          <h1 className={job.title}>{group.name}</h1>
          <GroupStateChip state={group.state} running={group.members.running} />
        </div>
        <div className={job.actions}>
          <Button
            variant="default"
            leftSection={<IconCopyPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" search={{ [kind]: String(group.id) }} {...props} />}
          >
            Clone
          </Button>
          {group.members.failed > 0 ? (
            <Button variant="default" leftSection={<IconRefresh size={16} />} onClick={() => void runAgain()}>
              Run failed again
            </Button>
          ) : null}
          {group.state === "active" ? (
            <Button
              variant="default"
              className={job.danger}
              leftSection={<IconPlayerStop size={16} />}
              onClick={() => setAsking(true)}
            >
              Cancel all
            </Button>
          ) : null}
        </div>
      </div>
      {group.reason === "" ? null : <p className={classes.reason}>{group.reason}</p>}
      <div className={job.facts}>
        <Facts>
          <Fact name={kind === "array" ? "Array" : "Sweep"}>
            <span className="mono">#{group.id}</span>
          </Fact>
          {children}
          <Fact name="Members at once">{group.parallel}</Fact>
          <Fact name="Virtual cluster">
            {group.tenant} / {group.vc}
          </Fact>
          <Fact name="Owner">{group.owner}</Fact>
          <Fact name="Submitted">
            <Ago at={group.submitted_at} />
          </Fact>
          <Fact name="Duration">
            <Elapsed from={group.submitted_at} to={group.ended_at} />
          </Fact>
          {group.cloned_from === null ? null : (
            <Fact name="Clone of">
              <GroupLink group={{ id: group.cloned_from, kind }} className="link mono">
                #{group.cloned_from}
              </GroupLink>
            </Fact>
          )}
        </Facts>
      </div>
      <Confirm
        opened={asking}
        title={`Cancel ${group.name}?`}
        yes="Cancel all members"
        onClose={() => setAsking(false)}
        onYes={cancelAll}
      >
        {plural(open, "member")} will not go on: those that run are stopped, with time to save a checkpoint;
        those that wait leave the queue. What has ended stays as it is.
      </Confirm>
    </header>
  );
}
