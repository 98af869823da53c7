import { UnstyledButton } from "@mantine/core";
import { memo } from "react";

import type { Node } from "../../api/types";
import { Meter } from "../../components/Meter";
import { Chip, toneOf } from "../../components/StateChip";
import { mebibytes } from "../../format/amount";
import { humanize } from "../../format/words";
import type { Colouring } from "./colouring";
import { GpuSquares } from "./GpuSquares";
import classes from "./NodeCard.module.css";

/** `8 × A100`, or `4 × A100, 4 × V100` for a mixed node. */
export function gpuWords(node: Node): string {
  const counts = new Map<string, number>();
  for (const gpu of node.gpus) counts.set(gpu.type, (counts.get(gpu.type) ?? 0) + 1);
  return counts.size === 0 ? "no GPU" : [...counts].map(([type, count]) => `${count} × ${type}`).join(", ");
}

/** Health and what operators want of a node; a node that is simply in service says nothing. */
export function NodeChips({ node, always = false }: { node: Node; always?: boolean }) {
  return (
    <span className={classes.chips}>
      {node.admin === "active" ? null : <Chip tone="queued">{humanize(node.admin)}</Chip>}
      {node.barred === null ? null : <Chip tone="failed">Barred</Chip>}
      {node.health === "ready" && !always ? null : (
        <Chip tone={toneOf(node.health)}>{humanize(node.health)}</Chip>
      )}
    </span>
  );
}

interface Props {
  node: Node;
  colouring: Colouring;
  /** The colour of each tenant. */
  tenants: ReadonlyMap<string, string>;
  onOpen: () => void;
}

export const NodeCard = memo(function NodeCard({ node, colouring, tenants, onOpen }: Props) {
  return (
    <article className={`card ${classes.card}`} aria-label={`Node ${node.name}`}>
      <header className={classes.head}>
        <UnstyledButton className={classes.name} onClick={onOpen} aria-label={`Details of ${node.name}`}>
          <span className={classes.health} data-health={node.health} aria-hidden="true" />
          <span className="mono truncate">{node.name}</span>
        </UnstyledButton>
        <NodeChips node={node} />
        <span className={classes.kind}>{gpuWords(node)}</span>
      </header>
      <GpuSquares node={node} colouring={colouring} tenants={tenants} />
      <div className={classes.meters}>
        <Meter
          thin
          label="CPU"
          name={`CPUs of ${node.name} in use`}
          used={node.cpus_used}
          total={node.cpus}
        />
        <Meter
          thin
          label="Memory"
          name={`Memory of ${node.name} in use`}
          used={node.memory_used_mib}
          total={node.memory_mib}
          figures={
            <>
              <strong>{mebibytes(node.memory_used_mib)}</strong> / {mebibytes(node.memory_mib)}
            </>
          }
        />
      </div>
    </article>
  );
});
