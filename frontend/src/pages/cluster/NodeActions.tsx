import { Button, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { changeNode, declareNodeGone } from "../../api/client";
import { messageOf } from "../../api/problem";
import { nodeQuery, nodesQuery } from "../../api/queries";
import type { Node, NodeAction } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { toast } from "../../components/toast";
import classes from "./NodeDrawer.module.css";

type Act = NodeAction | "declare-gone";

const DONE: Record<Act, string> = {
  cordon: "takes no new jobs",
  drain: "is being drained",
  move: "is being cleared",
  resume: "is back in service",
  "declare-gone": "is taken for gone",
};

const isSilent = (node: Node): boolean => node.health === "suspect" || node.health === "down";

/** What an operator can do with a node. Each act has a reason, which stays with the node. */
export function NodeActions({ node }: { node: Node }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState<Act | null>(null);
  const [asking, setAsking] = useState(false);

  const act = async (action: Act) => {
    setBusy(action);
    try {
      if (action === "declare-gone") await declareNodeGone(node.name, reason.trim());
      else await changeNode(node.name, action, reason.trim());
      toast("done", `${node.name} ${DONE[action]}`);
      setReason("");
      await Promise.all([
        client.invalidateQueries({ queryKey: nodesQuery.queryKey }),
        client.invalidateQueries({ queryKey: nodeQuery(node.name).queryKey }),
      ]);
    } catch (error) {
      toast("failed", messageOf(error));
    } finally {
      setBusy(null);
    }
  };

  const isDisabled = (action: Act) => (busy !== null && busy !== action) || reason.trim() === "";
  return (
    <section className={classes.actions} aria-label="Operator actions">
      <TextInput
        label="Reason"
        description="Shown to everybody who looks at the node."
        placeholder="fan replacement"
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      <div className={classes.buttons}>
        {actionsOf(node).map(({ action, label, hint }) => (
          <Button
            key={action}
            variant="default"
            title={hint}
            loading={busy === action}
            disabled={isDisabled(action)}
            onClick={() => void act(action)}
          >
            {label}
          </Button>
        ))}
        {isSilent(node) ? (
          <Button
            variant="default"
            title="Lets go of what it has at once, wherever its jobs may be."
            loading={busy === "declare-gone"}
            disabled={isDisabled("declare-gone")}
            onClick={() => setAsking(true)}
          >
            Declare gone
          </Button>
        ) : null}
      </div>
      <Confirm
        opened={asking}
        title={`Declare ${node.name} gone?`}
        yes="Declare gone"
        onYes={() => act("declare-gone")}
        onClose={() => setAsking(false)}
      >
        Be sure that the machine runs nothing any more. Its jobs may start elsewhere at once, and one that
        still runs there would run twice. The node stays cordoned until it is resumed.
      </Confirm>
    </section>
  );
}

function actionsOf(node: Node): { action: NodeAction; label: string; hint: string }[] {
  if (node.admin === "active")
    return [
      { action: "cordon", label: "Cordon", hint: "No new jobs; running ones stay." },
      { action: "drain", label: "Drain", hint: "No new jobs; empty when what runs has ended." },
      { action: "move", label: "Clear", hint: "No new jobs; who may be stopped for others goes elsewhere." },
    ];
  return [
    { action: "resume", label: "Resume", hint: "Takes jobs again." },
    ...(node.admin === "cordoned"
      ? [{ action: "drain" as const, label: "Drain", hint: "Empty when what runs has ended." }]
      : []),
    { action: "move", label: "Clear", hint: "Who may be stopped for others goes elsewhere." },
  ];
}
