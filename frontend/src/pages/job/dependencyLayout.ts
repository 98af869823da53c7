/** Places for the nodes of a small graph: a column for each step from what waits for nothing, and a row in it. */
import type { DependencyGraph } from "../../api/types";

export type Node = DependencyGraph["nodes"][number];
export type Edge = DependencyGraph["edges"][number];

/** More are told as a list. */
export const MAX_DRAWN = 30;
export const WIDTH = 168;
export const HEIGHT = 46;
const GAP_X = 56;
const GAP_Y = 14;

export interface Place {
  node: Node;
  x: number;
  y: number;
}

export interface Line {
  edge: Edge;
  /** A curve as an SVG path. */
  path: string;
}

export interface Layout {
  places: Place[];
  lines: Line[];
  width: number;
  height: number;
}

/** A node is older than those that wait for it, so one pass in their order finds each column. */
export function layout({ nodes, edges }: Pick<DependencyGraph, "nodes" | "edges">): Layout {
  const columnOf = new Map<number, number>();
  const before = (id: number) => edges.filter((edge) => edge.target === id).map((edge) => edge.source);
  for (const { id } of nodes) {
    columnOf.set(id, Math.max(-1, ...before(id).map((source) => columnOf.get(source) ?? -1)) + 1);
  }
  // What waits for nothing stands just before what waits for it, so that no line runs behind another node.
  for (const { id } of nodes) {
    const after = edges.filter((edge) => edge.source === id).map((edge) => columnOf.get(edge.target) ?? 1);
    if (after.length > 0 && before(id).length === 0) columnOf.set(id, Math.min(...after) - 1);
  }
  const columns: Node[][] = [];
  for (const node of nodes) (columns[columnOf.get(node.id) ?? 0] ??= []).push(node);
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const placeOf = new Map<number, Place>();
  columns.forEach((column, index) => {
    // Below what it waits for, as far as that is possible, so that few lines cross.
    const rank = (node: Node) => {
      const above = before(node.id).map((source) => placeOf.get(source)?.y ?? 0);
      return above.length === 0 ? 0 : above.reduce((sum, y) => sum + y, 0) / above.length;
    };
    const first = ((tallest - column.length) * (HEIGHT + GAP_Y)) / 2;
    [...column]
      .sort((one, other) => rank(one) - rank(other) || one.id - other.id)
      .forEach((node, row) => {
        placeOf.set(node.id, { node, x: index * (WIDTH + GAP_X), y: first + row * (HEIGHT + GAP_Y) });
      });
  });
  const lines = edges.flatMap((edge) => {
    const [from, to] = [placeOf.get(edge.source), placeOf.get(edge.target)];
    if (from === undefined || to === undefined) return [];
    const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x - 5, to.y + HEIGHT / 2];
    const bend = Math.max(GAP_X / 2, (x2 - x1) / 2);
    return [{ edge, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }];
  });
  return {
    places: nodes.flatMap(({ id }) => placeOf.get(id) ?? []),
    lines,
    width: columns.length * (WIDTH + GAP_X) - GAP_X,
    height: tallest * (HEIGHT + GAP_Y) - GAP_Y,
  };
}

/** `job 7`, `sweep 8`. */
export const nodeName = ({ id, kind }: Pick<Node, "id" | "kind">): string => `${kind ?? "job"} ${id}`;

const AWAITED: Record<Edge["kind"], string> = {
  ok: "to succeed",
  corr: "to succeed, member by member",
  any: "to end",
  failed: "to fail",
  started: "to start",
  singleton: "to end",
};
const STATES: Record<Edge["state"], string> = { open: "", met: ", which it has", never: ", which cannot be" };

/** What a node waits for of another, in words. */
export const edgeWords = (edge: Edge, source: Pick<Node, "id" | "kind">): string =>
  `${nodeName(source)} ${AWAITED[edge.kind]}${STATES[edge.state]}`;
