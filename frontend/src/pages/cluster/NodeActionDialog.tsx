import { Button, Group, Modal, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode, type SubmitEvent } from "react";

import { messageOf } from "../../api/problem";
import { nodeQuery } from "../../api/queries";
import type { Node, NodeAction, NodeDetail } from "../../api/types";
import { plural } from "../../format/amount";
import classes from "./NodeDrawer.module.css";

/** The actions that need a reason. */
export type AskedAction = Exclude<NodeAction, "resume"> | "declare-gone";

interface Props {
  node: Node;
  action: AskedAction;
  opened: boolean;
  onAct: (reason: string) => Promise<void>;
  onClose: () => void;
}

const TITLES: Record<AskedAction, (name: string) => string> = {
  cordon: (name) => `Cordon ${name}?`,
  drain: (name) => `Drain ${name}?`,
  "move-off": (name) => `Move jobs off ${name}?`,
  "declare-gone": (name) => `Declare ${name} gone?`,
};

const YES: Record<AskedAction, string> = {
  cordon: "Cordon",
  drain: "Drain",
  "move-off": "Move jobs off",
  "declare-gone": "Declare gone",
};

/** Names the jobs that an action on a node stops or waits for, and asks for its reason. */
export default function NodeActionDialog({ node, action, opened, onAct, onClose }: Props) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={TITLES[action](node.name)}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Question node={node} action={action} onAct={onAct} onClose={onClose} />
    </Modal>
  );
}

function Question({ node, action, onAct, onClose }: Omit<Props, "opened">) {
  const [reason, setReason] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  // The jobs may have changed since the drawer was opened, and the operator decides by them.
  const { data, error: failure, isFetchedAfterMount } = useQuery({ ...nodeQuery(node.name), staleTime: 0 });
  const detail = isFetchedAfterMount ? data : undefined;
  const waits = action !== "cordon" && detail === undefined;

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (reason.trim() === "") {
      setError("Write a reason.");
      return;
    }
    setBusy(true);
    await onAct(reason.trim());
    setBusy(false);
  };

  return (
    <form className={classes.question} onSubmit={(event) => void submit(event)}>
      {failure !== null && waits ? (
        <p role="alert">The jobs of this node could not be loaded: {messageOf(failure)}</p>
      ) : (
        <Consequences node={node} action={action} detail={detail} />
      )}
      <TextInput
        label="Reason"
        description="Shown to all users on the page of the node."
        placeholder="fan replacement"
        value={reason}
        error={error}
        data-autofocus
        onChange={(event) => {
          setReason(event.currentTarget.value);
          setError(null);
        }}
      />
      <Group justify="flex-end" gap={8}>
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button
          type="submit"
          color={action === "cordon" ? undefined : "danger"}
          loading={busy}
          disabled={waits}
        >
          {YES[action]}
        </Button>
      </Group>
    </form>
  );
}

function Consequences({
  node,
  action,
  detail,
}: {
  node: Node;
  action: AskedAction;
  detail: NodeDetail | undefined;
}): ReactNode {
  if (action === "cordon") return <p>No new job starts on {node.name}. Jobs that run there go on.</p>;
  if (detail === undefined) return <p role="status">Loading the jobs of {node.name}…</p>;
  const jobs = detail.running_jobs;
  if (action === "declare-gone")
    return (
      <>
        <p>
          Be sure that the machine runs nothing any more. Its jobs may start elsewhere at once, and one that
          still runs there would run twice. The node stays cordoned until it is resumed.
        </p>
        <JobList title="These jobs lose the node:" jobs={jobs} />
      </>
    );
  const stopped = action === "move-off" ? jobs.filter((job) => job.preemptible) : [];
  const awaited = jobs.filter((job) => !stopped.includes(job));
  return (
    <>
      <p>
        No new job starts on {node.name}.{jobs.length === 0 ? " No job runs there now." : null}
      </p>
      <JobList title="These jobs save their work, stop, and are queued again:" jobs={stopped} />
      <JobList
        title={
          action === "move-off"
            ? "These jobs are not preemptible. The node waits until they end:"
            : "The node is empty when these jobs have ended:"
        }
        jobs={awaited}
      />
    </>
  );
}

function JobList({ title, jobs }: { title: string; jobs: NodeDetail["running_jobs"] }) {
  if (jobs.length === 0) return null;
  return (
    <div>
      <p>{title}</p>
      <ul className={classes.jobs} aria-label={title}>
        {jobs.map((job) => (
          <li key={job.id}>
            <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className="link">
              #{job.id} {job.name}
            </Link>
            <span className={classes.faint}>
              {job.owner} of {job.tenant} · {plural(job.gpus, "GPU")}
              {job.nodes > 1 ? ` on ${job.nodes} nodes` : ""}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
