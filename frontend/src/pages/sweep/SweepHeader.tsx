import { Button } from "@mantine/core";
import { IconCopyPlus, IconPlayerStop, IconRefresh } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { cancelSweep, retrySweep } from "../../api/client";
import { messageOf } from "../../api/problem";
import { sweepQuery } from "../../api/queries";
import type { Sweep } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Fact, Facts } from "../../components/Fact";
import { GroupStateChip } from "../../components/StateChip";
import { Ago, Elapsed } from "../../components/Time";
import { toast } from "../../components/toast";
import { plural } from "../../format/amount";
import job from "../job/JobPage.module.css";
import classes from "./SweepPage.module.css";
import { methodWords } from "./words";

/** The name of the sweep, its state and what can be done with it. */
export function SweepHeader({ sweep }: { sweep: Sweep }) {
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const open = sweep.members.waiting + sweep.members.running + sweep.members.paused;

  const retry = async () => {
    try {
      const { retried } = await retrySweep(sweep.id);
      toast(
        "done",
        `${plural(retried, "member")} of sweep #${sweep.id} ${retried === 1 ? "runs" : "run"} again`,
      );
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: ["sweeps"] });
  };

  const cancel = async () => {
    try {
      client.setQueryData(sweepQuery(sweep.id).queryKey, await cancelSweep(sweep.id));
      toast("done", `Sweep #${sweep.id} is being cancelled`);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: ["sweeps"] });
  };

  return (
    <header>
      <div className={job.header}>
        <div className={job.titleRow}>
          <h1 className={job.title}>{sweep.name}</h1>
          <GroupStateChip state={sweep.state} running={sweep.members.running} />
        </div>
        <div className={job.actions}>
          <Button
            variant="default"
            leftSection={<IconCopyPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" search={{ sweep: String(sweep.id) }} {...props} />}
          >
            Clone
          </Button>
          {sweep.members.failed > 0 ? (
            <Button variant="default" leftSection={<IconRefresh size={16} />} onClick={() => void retry()}>
              Run failed again
            </Button>
          ) : null}
          {sweep.state === "active" ? (
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
      {sweep.reason === "" ? null : <p className={classes.reason}>{sweep.reason}</p>}
      <div className={job.facts}>
        <Facts>
          <Fact name="Sweep">
            <span className="mono">#{sweep.id}</span>
          </Fact>
          <Fact name="Method">{methodWords(sweep.method)}</Fact>
          <Fact name="Metric">
            {sweep.metric}, {sweep.goal === "min" ? "the smaller the better" : "the larger the better"}
          </Fact>
          <Fact name="Members at once">{sweep.parallel}</Fact>
          <Fact name="Virtual cluster">
            {sweep.tenant} / {sweep.vc}
          </Fact>
          <Fact name="Owner">{sweep.owner}</Fact>
          <Fact name="Submitted">
            <Ago at={sweep.submitted_at} />
          </Fact>
          <Fact name="Duration">
            <Elapsed from={sweep.submitted_at} to={sweep.ended_at} />
          </Fact>
          {sweep.cloned_from === null ? null : (
            <Fact name="Clone of">
              <Link
                to="/sweeps/$sweepId"
                params={{ sweepId: String(sweep.cloned_from) }}
                className="link mono"
              >
                #{sweep.cloned_from}
              </Link>
            </Fact>
          )}
        </Facts>
      </div>
      <Confirm
        opened={asking}
        title={`Cancel ${sweep.name}?`}
        yes="Cancel all members"
        onClose={() => setAsking(false)}
        onYes={cancel}
      >
        {plural(open, "member")} will not go on: those that run are stopped, with time to save a checkpoint;
        those that wait leave the queue. What has ended stays as it is.
      </Confirm>
    </header>
  );
}
