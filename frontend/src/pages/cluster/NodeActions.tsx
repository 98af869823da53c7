import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, useState } from "react";

import { changeNode, declareNodeGone } from "../../api/client";
import { loadPart } from "../../api/parts";
import { messageOf } from "../../api/problem";
import { nodeQuery, nodesQuery } from "../../api/queries";
import type { Node } from "../../api/types";
import { OnceOpened } from "../../components/OnceOpened";
import { toast } from "../../components/toast";
import type { AskedAction } from "./NodeActionDialog";
import classes from "./NodeDrawer.module.css";

// Dialogs are rare, and what they are made of is not small.
const NodeActionDialog = lazy(() => loadPart(() => import("./NodeActionDialog")));

type Action = AskedAction | "resume";

const DONE: Record<Action, string> = {
  cordon: "takes no new jobs",
  drain: "is being drained",
  "move-off": "is being drained, and its preemptible jobs are queued again",
  resume: "takes jobs again",
  "declare-gone": "is declared gone",
};

const isSilent = (node: Node): boolean => node.health === "suspect" || node.health === "down";

/** What an operator can do with a node. Every action but resume first asks for a reason and names the jobs concerned. */
export function NodeActions({ node }: { node: Node }) {
  const client = useQueryClient();
  const [asked, setAsked] = useState<AskedAction>("drain");
  const [opened, setOpened] = useState(false);
  const [resuming, setResuming] = useState(false);

  const act = async (action: Action, reason?: string) => {
    try {
      if (action === "declare-gone") await declareNodeGone(node.name, reason ?? "");
      else await changeNode(node.name, action, reason);
      toast("done", `${node.name} ${DONE[action]}`);
      setOpened(false);
      await Promise.all([
        client.invalidateQueries({ queryKey: nodesQuery.queryKey }),
        client.invalidateQueries({ queryKey: nodeQuery(node.name).queryKey }),
      ]);
    } catch (error) {
      toast("failed", messageOf(error));
    }
  };
  const resume = async () => {
    setResuming(true);
    await act("resume");
    setResuming(false);
  };
  const ask = (action: AskedAction, label: string) => (
    <Button
      variant="default"
      onClick={() => {
        setAsked(action);
        setOpened(true);
      }}
    >
      {label}
    </Button>
  );

  return (
    <section className={classes.actions} aria-label="Operator actions">
      {node.admin === "active" ? null : (
        <Button variant="default" loading={resuming} onClick={() => void resume()}>
          Resume
        </Button>
      )}
      {node.admin === "active" ? ask("cordon", "Cordon…") : null}
      {node.admin === "draining" ? null : ask("drain", "Drain…")}
      {ask("move-off", "Move jobs off…")}
      {isSilent(node) ? ask("declare-gone", "Declare gone…") : null}
      <OnceOpened opened={opened}>
        <NodeActionDialog
          node={node}
          action={asked}
          opened={opened}
          onAct={(reason) => act(asked, reason)}
          onClose={() => setOpened(false)}
        />
      </OnceOpened>
    </section>
  );
}
