import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";

import type { DependencyGraph } from "../../api/types";
import { DependencyFigure } from "./DependencyCard";
import { HEIGHT, layout, WIDTH, type Edge, type Node } from "./dependencyLayout";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ params, search, to, ...rest }: Record<string, unknown>) => (
    <a href={`${String(to)} ${JSON.stringify(params ?? search)}`} {...rest} />
  ),
}));

const node = (id: number, changes: Partial<Node> = {}): Node => ({
  id,
  kind: null,
  name: `train-${id}`,
  state: "queued",
  waits: false,
  ...changes,
});
const edge = (source: number, target: number, changes: Partial<Edge> = {}): Edge => ({
  source,
  target,
  kind: "ok",
  state: "open",
  ...changes,
});
const graph = (nodes: Node[], edges: Edge[]): DependencyGraph => ({ middle: 2, nodes, edges, whole: true });

test("each node is a link that says what it waits for, and the job itself is the current one", () => {
  render(
    <DependencyFigure
      graph={graph(
        [
          node(1, { state: "failed" }),
          node(2, { waits: true }),
          node(3, { kind: "sweep", state: "active", waits: true }),
        ],
        [edge(1, 2, { kind: "failed", state: "met" }), edge(2, 3)],
      )}
    />,
  );
  const links = screen.getAllByRole("link");
  expect(links.map((link) => link.getAttribute("aria-label"))).toEqual([
    "Job 1 train-1, failed",
    "Job 2 train-2, waits; waits for job 1 to fail, which it has",
    "Sweep 3 train-3, waits; waits for job 2 to succeed",
  ]);
  expect(links.map((link) => link.getAttribute("aria-current"))).toEqual([null, "true", null]);
  expect(links[2]?.getAttribute("href")).toContain('{"sweepId":"3"}');
  expect(screen.getByRole("region", { name: "Graph of what waits for what" }).tabIndex).toBe(0);
});

test("a large graph is told as lists of the neighbours", () => {
  const many = Array.from({ length: 40 }, (_, index) => node(index + 3));
  render(
    <DependencyFigure
      graph={graph(
        [node(1), node(2, { waits: true }), ...many],
        [edge(1, 2), ...many.map(({ id }) => edge(2, id))],
      )}
    />,
  );
  expect(screen.getByRole("heading", { name: "Waits for 1" })).toBeDefined();
  expect(screen.getByRole("heading", { name: "Waited for by 40" })).toBeDefined();
  expect(screen.getAllByRole("link")).toHaveLength(41);
});

test("no two nodes overlap, and each stands to the right of what it waits for", () => {
  const nodes = Array.from({ length: 30 }, (_, index) => node(index + 1));
  // A fan out, a fan in, and a chain behind it.
  const fan = nodes.slice(1, 20).flatMap(({ id }) => [edge(1, id), edge(id, 21)]);
  const chain = nodes.slice(21).map(({ id }) => edge(id - 1, id));
  const { places, lines, width, height } = layout({ nodes, edges: [...fan, ...chain] });
  expect(lines).toHaveLength(fan.length + chain.length);
  const placeOf = new Map(places.map((place) => [place.node.id, place]));
  const late = layout({ nodes: nodes.slice(0, 4), edges: [edge(1, 2), edge(2, 4), edge(3, 4)] });
  expect(late.places.map(({ x }) => x / (WIDTH + 56))).toEqual([0, 1, 1, 2]);
  for (const { edge: each } of lines) {
    expect(placeOf.get(each.target)?.x).toBeGreaterThan((placeOf.get(each.source)?.x ?? 0) + WIDTH);
  }
  for (const one of places) {
    expect(one.x + WIDTH).toBeLessThanOrEqual(width);
    expect(one.y + HEIGHT).toBeLessThanOrEqual(height);
    for (const other of places) {
      if (other !== one && other.x === one.x) {
        expect(Math.abs(other.y - one.y)).toBeGreaterThanOrEqual(HEIGHT);
      }
    }
  }
});
