import { useRef, useState, type KeyboardEvent } from "react";

import type { Gpu, Node } from "../../api/types";
import { useMe } from "../../app/me";
import { fillOf, LOOK_WORDS, type Colouring } from "./colouring";
import { lookOf, rampStep } from "./figures";
import { useGpuCard } from "./gpuCardContext";
import classes from "./Squares.module.css";

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function describe(gpu: Gpu, look: string): string {
  const parts = [`GPU ${gpu.index} of ${gpu.node}`, gpu.type, look];
  for (const job of gpu.jobs) parts.push(`job ${job.name}`);
  if (gpu.utilization !== null) parts.push(`${Math.round(gpu.utilization)}% utilisation`);
  return parts.join(", ");
}

/** The GPUs of a node; one of them takes the Tab key and the arrow keys lead to the others. */
export function GpuSquares({
  node,
  colouring,
  tenants,
}: {
  node: Node;
  colouring: Colouring;
  tenants: ReadonlyMap<string, string>;
}) {
  const { username } = useMe();
  const card = useGpuCard();
  const list = useRef<HTMLDivElement>(null);
  const [stop, setStop] = useState(0);

  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = (stop + step + node.gpus.length) % node.gpus.length;
    setStop(next);
    list.current?.querySelectorAll("button").item(next).focus();
  };

  return (
    <div
      ref={list}
      className={classes.squares}
      role="group"
      aria-label={`GPUs of ${node.name}`}
      onKeyDown={onKeyDown}
    >
      {node.gpus.map((gpu, index) => {
        const look = lookOf(gpu, node, username);
        const fill = fillOf(gpu, look, colouring, tenants);
        const figure = colouring === "utilisation" && gpu.utilization !== null && look !== "unhealthy";
        const step = gpu.utilization === null ? 0 : rampStep(gpu.utilization);
        return (
          <button
            key={gpu.uuid}
            type="button"
            className={classes.gpu}
            data-testid="gpu"
            data-look={fill === undefined ? look : undefined}
            data-state={look}
            data-ramp={figure ? step : undefined}
            data-open={card.isOpen(gpu.uuid) || undefined}
            style={fill}
            tabIndex={index === stop ? 0 : -1}
            aria-label={describe(gpu, LOOK_WORDS[look])}
            onMouseEnter={(event) => card.show(gpu, node, event.currentTarget)}
            onMouseLeave={card.hide}
            onFocus={(event) => {
              setStop(index);
              if (event.currentTarget.matches(":focus-visible")) card.show(gpu, node, event.currentTarget);
            }}
            onBlur={card.hide}
            onClick={(event) => card.pin(gpu, node, event.currentTarget)}
          >
            {figure ? Math.round(gpu.utilization ?? 0) : null}
          </button>
        );
      })}
    </div>
  );
}
