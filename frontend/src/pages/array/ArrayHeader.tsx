import { Button } from "@mantine/core";
import { IconCopyPlus, IconPlayerStop, IconRefresh } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { cancelArray, retryArray } from "../../api/client";
import { messageOf } from "../../api/problem";
import type { Array } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Fact, Facts } from "../../components/Fact";
import { GroupLink } from "../../components/GroupLink";
import { GroupStateChip } from "../../components/StateChip";
import { Ago, Elapsed } from "../../components/Time";
import { toast } from "../../components/toast";
import { plural } from "../../format/amount";
import job from "../job/JobPage.module.css";
import sweep from "../sweep/SweepPage.module.css";

/** The name of the array, its state and what can be done with it. */
export function ArrayHeader({ array }: { array: Array }) {
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);

  const act = async (call: () => Promise<string>) => {
    try {
      toast("done", await call());
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: ["arrays"] });
  };
  const retry = () =>
    act(async () => {
      const { retried } = await retryArray(array.id);
      return `${plural(retried, "member")} of array #${array.id} ${retried === 1 ? "runs" : "run"} again`;
    });
  const cancel = () =>
    act(async () => {
      await cancelArray(array.id);
      return `Array #${array.id} is being cancelled`;
    });

  return (
    <header>
      <div className={job.header}>
        <div className={job.titleRow}>
          <h1 className={job.title}>{array.name}</h1>
          <GroupStateChip state={array.state} running={array.members.running} />
        </div>
        <div className={job.actions}>
          <Button
            variant="default"
            leftSection={<IconCopyPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" search={{ array: String(array.id) }} {...props} />}
          >
            Clone
          </Button>
          {array.members.failed > 0 ? (
            <Button variant="default" leftSection={<IconRefresh size={16} />} onClick={() => void retry()}>
              Run failed again
            </Button>
          ) : null}
          {array.state === "active" ? (
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
      {array.reason === "" ? null : <p className={sweep.reason}>{array.reason}</p>}
      <div className={job.facts}>
        <Facts>
          <Fact name="Array">
            <span className="mono">#{array.id}</span>
          </Fact>
          <Fact name="Indices">
            {array.first_index} to {array.last_index}
          </Fact>
          <Fact name="Members at once">{array.parallel}</Fact>
          <Fact name="Virtual cluster">
            {array.tenant} / {array.vc}
          </Fact>
          <Fact name="Owner">{array.owner}</Fact>
          <Fact name="Submitted">
            <Ago at={array.submitted_at} />
          </Fact>
          <Fact name="Duration">
            <Elapsed from={array.submitted_at} to={array.ended_at} />
          </Fact>
          {array.cloned_from === null ? null : (
            <Fact name="Clone of">
              <GroupLink group={{ id: array.cloned_from, kind: "array" }} className="link mono">
                #{array.cloned_from}
              </GroupLink>
            </Fact>
          )}
        </Facts>
      </div>
      <Confirm
        opened={asking}
        title={`Cancel ${array.name}?`}
        yes="Cancel all members"
        onClose={() => setAsking(false)}
        onYes={cancel}
      >
        {plural(array.members.waiting + array.members.running, "member")} will not go on: those that run are
        stopped, with time to save a checkpoint; those that wait leave the queue. What has ended stays as it
        is.
      </Confirm>
    </header>
  );
}
