import type { Node } from "../../api/types";
import { plural } from "../../format/amount";
import { humanize } from "../../format/words";
import { isUsable } from "../cluster/figures";

/** A node on which an operator has something to look at, and why. */
export interface Concern {
  node: string;
  /** A node that takes no jobs at all comes before one that lost a GPU or two. */
  closed: boolean;
  why: string;
}

function concernOf(node: Node): Concern | null {
  if (node.admin === "retired") return null;
  const closed = !isUsable(node) || node.barred !== null;
  const parts: string[] = [];
  if (node.health !== "ready") parts.push(humanize(node.health));
  if (node.admin !== "active") parts.push(`${humanize(node.admin)}${node.reason ? `: ${node.reason}` : ""}`);
  if (node.barred !== null) parts.push(node.barred);
  const bad = node.gpus.filter((gpu) => !gpu.healthy);
  const [first] = bad;
  if (first !== undefined && node.health !== "down") {
    parts.push(`${plural(bad.length, "unhealthy GPU")}${first.health_why ? `: ${first.health_why}` : ""}`);
  }
  return parts.length === 0 ? null : { node: node.name, closed, why: parts.join(" · ") };
}

/** Nodes that take no jobs first, then those with unhealthy GPUs, by name. */
export function concerns(nodes: readonly Node[]): Concern[] {
  return nodes
    .map(concernOf)
    .filter((concern) => concern !== null)
    .sort(
      (one, other) =>
        Number(other.closed) - Number(one.closed) ||
        one.node.localeCompare(other.node, undefined, { numeric: true }),
    );
}
