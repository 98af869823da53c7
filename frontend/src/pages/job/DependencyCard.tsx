import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { dependenciesQuery, useFallbackInterval } from "../../api/queries";
import type { DependencyGraph, Job } from "../../api/types";
import { toneOf, toneStyle } from "../../components/StateChip";
import { humanize } from "../../format/words";
import classes from "./DependencyCard.module.css";
import { edgeWords, HEIGHT, layout, MAX_DRAWN, nodeName, WIDTH, type Node } from "./dependencyLayout";

/** What the job waits for and what waits for it, drawn, or told if that is much. Most jobs have neither. */
export function DependencyCard({ job }: { job: Job }) {
  const query = useQuery({ ...dependenciesQuery(job.id), refetchInterval: useFallbackInterval() });
  return query.data === undefined || query.data.edges.length === 0 ? null : (
    <DependencyFigure graph={query.data} />
  );
}

export function DependencyFigure({ graph }: { graph: DependencyGraph }) {
  const drawn = graph.nodes.length <= MAX_DRAWN;
  return (
    <section className={`card ${classes.card}`} aria-label="Dependencies">
      <h2 className={classes.title}>Dependencies</h2>
      {drawn ? <Drawing graph={graph} /> : <Told graph={graph} />}
      {graph.whole ? null : <p className={classes.note}>Those that are farther away are left out.</p>}
    </section>
  );
}

function Drawing({ graph }: { graph: DependencyGraph }) {
  const { places, lines, width, height } = layout(graph);
  return (
    // A chain is wider than a phone: the region can be scrolled by keys too.
    <div className={classes.scroll} role="region" aria-label="Graph of what waits for what" tabIndex={0}>
      <div className={classes.drawing} style={{ width, height }}>
        <svg width={width} height={height} aria-hidden="true">
          <defs>
            <marker
              id="waits-for"
              viewBox="0 0 8 8"
              refX="6"
              refY="4"
              markerWidth="7"
              markerHeight="7"
              orient="auto"
            >
              <path d="M0 0L8 4L0 8z" fill="context-stroke" />
            </marker>
          </defs>
          {lines.map(({ edge, path }) => (
            <path
              key={`${edge.source} ${edge.target} ${edge.kind}`}
              className={classes.line}
              data-state={edge.state}
              d={path}
              markerEnd="url(#waits-for)"
            />
          ))}
        </svg>
        <ol className={classes.nodes}>
          {places.map(({ node, x, y }) => (
            <li key={node.id} style={{ left: x, top: y, width: WIDTH, height: HEIGHT }}>
              <NodeLink node={node} graph={graph} className={classes.node}>
                <span className={classes.name}>{node.name}</span>
                <span className={classes.state}>
                  <span className={classes.dot} aria-hidden="true" />
                  {nodeName(node)}, {stateWords(node)}
                </span>
              </NodeLink>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

/** The neighbours of the job; each of them shows its own. */
function Told({ graph }: { graph: DependencyGraph }) {
  const nodeOf = new Map(graph.nodes.map((node) => [node.id, node]));
  const neighbours = (from: "source" | "target", to: "source" | "target") =>
    graph.edges.filter((edge) => edge[from] === graph.middle).flatMap((edge) => nodeOf.get(edge[to]) ?? []);
  return (
    <>
      {[
        ["Waits for", neighbours("target", "source")] as const,
        ["Waited for by", neighbours("source", "target")] as const,
      ].map(([title, nodes]) =>
        nodes.length === 0 ? null : (
          <div key={title}>
            <h3 className={classes.subtitle}>
              {title} {nodes.length}
            </h3>
            <ul className={classes.list}>
              {nodes.map((node) => (
                <li key={node.id}>
                  <NodeLink node={node} graph={graph} className="link">
                    {nodeName(node)} {node.name}
                  </NodeLink>
                  , {stateWords(node)}
                </li>
              ))}
            </ul>
          </div>
        ),
      )}
    </>
  );
}

interface NodeProps {
  node: Node;
  graph: DependencyGraph;
  className?: string | undefined;
  children: ReactNode;
}

function NodeLink({ node, graph, className, children }: NodeProps) {
  const nodeOf = new Map(graph.nodes.map((each) => [each.id, each]));
  const waits = graph.edges
    .filter((edge) => edge.target === node.id)
    .flatMap((edge) => {
      const source = nodeOf.get(edge.source);
      return source === undefined ? [] : [edgeWords(edge, source)];
    });
  const told = `${humanize(nodeName(node))} ${node.name}, ${stateWords(node)}`;
  const label = waits.length === 0 ? told : `${told}; waits for ${waits.join(", and ")}`;
  const common = {
    className,
    style: toneStyle(toneOf(node.waits ? "queued" : node.state)),
    "aria-label": label,
    title: label,
    ...(node.id === graph.middle && { "aria-current": true as const }),
  };
  if (node.kind === "sweep") {
    return (
      <Link to="/sweeps/$sweepId" params={{ sweepId: String(node.id) }} {...common}>
        {children}
      </Link>
    );
  }
  if (node.kind !== null) {
    return (
      <Link to="/jobs" search={{ group: String(node.id) }} {...common}>
        {children}
      </Link>
    );
  }
  return (
    <Link to="/jobs/$jobId" params={{ jobId: String(node.id) }} {...common}>
      {children}
    </Link>
  );
}

const STATES: Record<Node["state"], string> = {
  queued: "queued",
  active: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};

function stateWords(node: Node): string {
  return node.waits ? "waits" : STATES[node.state];
}
