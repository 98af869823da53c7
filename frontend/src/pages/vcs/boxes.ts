/** Cells as nested boxes: physical and virtual ones look alike once they are boxes. */
import type { Cell, CellState, VcCells, VirtualCell } from "../../api/cells";
import { plural } from "../../format/amount";

export interface Box {
  key: string;
  /** The type of the cell, such as `A100-NODE`. */
  type: string;
  /** Where it is, or which virtual cell it is. */
  name: string;
  /** What tells it apart beside its type, where there is room for a word. */
  label: string;
  gpus: number;
  /** GPUs of guaranteed jobs. */
  used: number;
  /** GPUs of opportunistic jobs. */
  lent: number;
  state: CellState;
  /** Why nothing may be promised of it now; empty if it is well. */
  trouble: "" | "bad" | "doomed";
  /** The virtual cluster that it is bound to. */
  vc: string | null;
  /** The physical cell that a virtual cell is bound to. */
  physical: string | null;
  jobs: readonly number[];
  children: readonly Box[];
}

export const MAX_BOXES = 1500;

export const physicalBox = (cell: Cell): Box => ({
  key: cell.address,
  type: cell.type,
  name: cell.address,
  label: [cell.address.split("/").at(-1), cell.vc].filter(Boolean).join(" · "),
  gpus: cell.gpus,
  used: cell.used,
  lent: cell.opportunistic,
  state: cell.state,
  trouble: cell.healthy ? "" : "bad",
  vc: cell.vc,
  physical: null,
  jobs: [],
  children: cell.children.map(physicalBox),
});

/** The virtual cells of one virtual cluster; what is lent of them is known where they are bound. */
export function virtualBoxes(cells: VcCells, physical: readonly Cell[]): Box[] {
  const lent = new Map<string, number>();
  const visit = (cell: Cell) => {
    lent.set(cell.address, cell.opportunistic);
    cell.children.forEach(visit);
  };
  physical.forEach(visit);
  const boxOf = (cell: VirtualCell): Box => ({
    key: cell.id,
    type: cell.type,
    name: cell.id,
    label: cell.physical ?? "",
    gpus: cell.gpus,
    used: cell.used,
    lent: cell.physical === null ? 0 : (lent.get(cell.physical) ?? 0),
    state: cell.state,
    trouble: cell.doomed ? "doomed" : "",
    vc: cells.vc,
    physical: cell.physical,
    jobs: cell.jobs,
    children: cell.children.map(boxOf),
  });
  return cells.virtual.map(boxOf);
}

/** How many levels can be shown with at most `most` boxes; the top level always is. */
export function depthOf(boxes: readonly Box[], most = MAX_BOXES): number {
  let [depth, shown, level] = [0, 0, boxes];
  while (level.length > 0 && (depth === 0 || shown + level.length <= most)) {
    depth += 1;
    shown += level.length;
    level = level.flatMap(({ children }) => children);
  }
  return depth;
}

export interface Row {
  box: Box;
  depth: number;
}

/** The boxes of the first levels in the order in which one reads them. */
export function rowsOf(boxes: readonly Box[], levels: number, depth = 0): Row[] {
  if (levels === 0) return [];
  return boxes.flatMap((box) => [{ box, depth }, ...rowsOf(box.children, levels - 1, depth + 1)]);
}

const STATES: Record<CellState, string> = {
  free: "free",
  used: "in use",
  reserving: "reserving",
  reserved: "reserved",
};

export function stateWords({ trouble, state }: Box): string {
  if (trouble === "bad") return "bad: a node or GPU of it is unhealthy";
  if (trouble === "doomed") return "doomed: no healthy physical cell is left for it";
  return STATES[state];
}

/** The box in a sentence, for who points at it. */
export function boxWords(box: Box): string {
  const parts = [`${box.type} ${box.name}`, plural(box.gpus, "GPU"), stateWords(box)];
  if (box.used > 0) parts.push(`${box.used} used by guaranteed jobs`);
  if (box.lent > 0) parts.push(`${box.lent} used by opportunistic jobs`);
  if (box.physical !== null) parts.push(`on ${box.physical}`);
  if (box.jobs.length > 0) parts.push(`${box.jobs.length === 1 ? "job" : "jobs"} ${box.jobs.join(", ")}`);
  return parts.join(", ");
}

/** All boxes in one sentence, for who cannot see them. */
export function boxesWords(boxes: readonly Box[]): string {
  const sum = (of: (box: Box) => number) => boxes.reduce((all, box) => all + of(box), 0);
  const words = [
    `${plural(boxes.length, "cell")} with ${plural(
      sum((box) => box.gpus),
      "GPU",
    )}: ${sum((box) => box.used)} used by guaranteed jobs, ${sum((box) => box.lent)} by opportunistic jobs`,
  ];
  const ill = boxes.filter(({ trouble }) => trouble !== "").length;
  if (ill > 0) words.push(`${plural(ill, "cell")} bad or doomed`);
  return `${words.join("; ")}.`;
}
