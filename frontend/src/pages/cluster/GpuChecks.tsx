import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";

import { checkNode } from "../../api/client";
import { messageOf } from "../../api/problem";
import { nodesQuery } from "../../api/queries";
import type { GpuCheck, NodeDetail } from "../../api/types";
import { Ago } from "../../components/Time";
import { toast } from "../../components/toast";
import { plural } from "../../format/amount";
import classes from "./Strikes.module.css";

/** What came of the checks of the node's GPUs between jobs, and for operators a way to ask for them. */
export function GpuChecks({ node, isOperator }: { node: NodeDetail; isOperator: boolean }) {
  const title = useId();
  if (node.gpu_checks.length === 0 && !(isOperator && node.gpus.length > 0)) return null;
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className={classes.title}>
        Checks of GPUs
      </h3>
      {node.gpu_checks.length === 0 ? (
        <p className={classes.note}>None yet.</p>
      ) : (
        <ul className={classes.list}>
          {node.gpu_checks.map((check) => (
            <Check key={check.gpu} check={check} />
          ))}
        </ul>
      )}
      {isOperator && node.gpus.length > 0 ? <Ask node={node} /> : null}
    </section>
  );
}

const RESULTS: Record<NonNullable<GpuCheck["result"]>, string> = {
  passed: "passed",
  failed: "failed",
  stopped: "gave way to a job",
  unanswered: "was not answered by its agent",
};

const WORK: Record<string, string> = { matmul: "did work", emulated: "emulated", nvml: "was looked at" };

function Check({ check }: { check: GpuCheck }) {
  const result = check.result === null ? "no check yet" : RESULTS[check.result];
  const facts = [
    check.how === "" ? null : (WORK[check.how] ?? check.how),
    check.tflops === null ? null : `${Number(check.tflops.toPrecision(4))} TFLOP/s`,
    check.gb_s === null ? null : `${Number(check.gb_s.toPrecision(4))} GB/s`,
    check.at === null ? null : `${check.duration_s.toFixed(1)} s`,
    Math.abs(check.streak) > 1 ? `${Math.abs(check.streak)} in a row` : null,
    check.detail === "" ? null : check.detail,
  ].filter((fact) => fact !== null);
  return (
    <li className={classes.strike}>
      <span className={classes.what}>
        GPU {check.gpu} {result}
        {check.wanted ? ", another is under way" : ""}
      </span>
      <span className={classes.when}>{check.at === null ? null : <Ago at={check.at} />}</span>
      {facts.length === 0 ? null : <span className={classes.detail}>{facts.join(" · ")}</span>}
    </li>
  );
}

function Ask({ node }: { node: NodeDetail }) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);

  const ask = async () => {
    setBusy(true);
    try {
      const { gpu_checks: checks } = await checkNode(node.name);
      const wanted = checks.filter((check) => check.wanted).length;
      toast("done", `${node.name}: ${plural(wanted, "GPU")} to be checked`);
      await client.invalidateQueries({ queryKey: nodesQuery.queryKey });
    } catch (error) {
      toast("failed", messageOf(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div>
      <Button
        variant="default"
        loading={busy}
        title="Those that no job has; a job that comes is not delayed."
        onClick={() => void ask()}
      >
        Check GPUs
      </Button>
    </div>
  );
}
