import { Link } from "@tanstack/react-router";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";

import type { Gpu, Node } from "../../api/types";
import { useMe } from "../../app/me";
import { Meter } from "../../components/Meter";
import { mebibytes } from "../../format/amount";
import { LOOK_WORDS } from "./colouring";
import { lookOf } from "./figures";
import classes from "./GpuCard.module.css";
import { GpuCardContext, type GpuCardControl } from "./gpuCardContext";

interface Shown {
  gpu: Gpu;
  node: Node;
  square: HTMLElement;
  pinned: boolean;
}

/** One card for all squares: thousands of them must not each carry a tooltip of their own. */
export function GpuCardHost({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<Shown | null>(null);
  const show = useCallback((gpu: Gpu, node: Node, square: HTMLElement) => {
    setShown((old) => (old?.pinned === true ? old : { gpu, node, square, pinned: false }));
  }, []);
  const hide = useCallback(() => setShown((old) => (old?.pinned === true ? old : null)), []);
  const pin = useCallback((gpu: Gpu, node: Node, square: HTMLElement) => {
    setShown((old) =>
      old?.pinned === true && old.gpu.uuid === gpu.uuid ? null : { gpu, node, square, pinned: true },
    );
  }, []);
  const open = shown?.gpu.uuid;
  const control = useMemo<GpuCardControl>(
    () => ({ show, hide, pin, isOpen: (uuid) => uuid === open }),
    [show, hide, pin, open],
  );
  return (
    <GpuCardContext value={control}>
      {children}
      {shown === null ? null : <GpuCard {...shown} onClose={() => setShown(null)} />}
    </GpuCardContext>
  );
}

const EDGE = 12;

function GpuCard({ gpu, node, square, pinned, onClose }: Shown & { onClose: () => void }) {
  const card = useRef<HTMLDivElement>(null);
  const { username } = useMe();
  const look = lookOf(gpu, node, username);

  useLayoutEffect(() => {
    const element = card.current;
    if (element === null) return;
    const around = square.getBoundingClientRect();
    const { width, height } = element.getBoundingClientRect();
    const left = Math.min(
      Math.max(EDGE, around.left + around.width / 2 - width / 2),
      window.innerWidth - width - EDGE,
    );
    const below = around.bottom + 8;
    const top = below + height > window.innerHeight - EDGE ? around.top - height - 8 : below;
    element.style.left = `${left}px`;
    element.style.top = `${Math.max(EDGE, top)}px`;
  }, [square, gpu]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") onClose();
    };
    const onPointer = (event: PointerEvent) => {
      const target = event.target;
      if (target instanceof Element && (card.current?.contains(target) || square.contains(target))) return;
      onClose();
    };
    document.addEventListener("keydown", onKey);
    document.addEventListener("pointerdown", onPointer);
    window.addEventListener("scroll", onClose, { passive: true });
    return () => {
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("pointerdown", onPointer);
      window.removeEventListener("scroll", onClose);
    };
  }, [onClose, square]);

  return (
    <div
      ref={card}
      className={classes.card}
      data-pinned={pinned || undefined}
      role={pinned ? "dialog" : "tooltip"}
      aria-label={`GPU ${gpu.index} of ${gpu.node}`}
    >
      <div className={classes.head}>
        <span className="mono">
          {gpu.node} · {gpu.index}
        </span>
        <span className={classes.look}>{LOOK_WORDS[look]}</span>
      </div>
      <p className={classes.type}>
        {gpu.type}, {mebibytes(gpu.memory_mib)}
      </p>
      {gpu.jobs.map((job) => (
        <p className={classes.job} key={job.id}>
          <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className="link">
            {job.name}
          </Link>
          <span className={classes.faint}>
            #{job.id} · {job.owner} · {job.tenant}
          </span>
        </p>
      ))}
      {gpu.busy && gpu.jobs.length === 0 ? <p className={classes.faint}>In use by another tenant</p> : null}
      <div className={classes.meters}>
        {gpu.utilization === null ? null : (
          <Meter
            thin
            label="Utilisation"
            name="Utilisation"
            used={gpu.utilization}
            total={100}
            figures={`${Math.round(gpu.utilization)}%`}
          />
        )}
        {gpu.memory_used_mib === null ? null : (
          <Meter
            thin
            label="Memory"
            name="Memory"
            used={gpu.memory_used_mib}
            total={gpu.memory_mib}
            figures={mebibytes(gpu.memory_used_mib)}
          />
        )}
      </div>
      {gpu.temperature_c === null && gpu.power_w === null ? null : (
        <p className={`${classes.faint} tabular`}>
          {[
            gpu.temperature_c === null ? null : `${Math.round(gpu.temperature_c)} °C`,
            gpu.power_w === null ? null : `${Math.round(gpu.power_w)} W`,
          ]
            .filter((part) => part !== null)
            .join(" · ")}
        </p>
      )}
    </div>
  );
}
