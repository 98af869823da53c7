import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { PoolCells, VcCells } from "../../api/cells";
import { SectionHead } from "../../components/Page";
import { plural } from "../../format/amount";
import { virtualBoxes } from "./boxes";
import { CellBoxes } from "./CellBoxes";
import classes from "./VcPage.module.css";

/** The virtual cells of a virtual cluster, and what it holds outside of them. */
export function CellsCard({ cells, pool }: { cells: VcCells; pool: PoolCells | undefined }) {
  const boxes = useMemo(() => virtualBoxes(cells, pool?.physical ?? []), [cells, pool]);
  const gpus = boxes.reduce((sum, box) => sum + box.gpus, 0);
  const borrowed = cells.opportunistic_gpus;
  return (
    <section className={`card ${classes.card}`} aria-label="Cells">
      <SectionHead title="Cells" term="cell">
        <span className={classes.faint}>{plural(gpus, "GPU")} guaranteed</span>
      </SectionHead>
      {boxes.length === 0 ? (
        <p className={classes.faint}>
          No cell is promised to this virtual cluster: its jobs run as opportunistic ones.
        </p>
      ) : (
        <CellBoxes boxes={boxes} label="Cells" />
      )}
      <p className={classes.beyond}>
        {borrowed === 0
          ? "No GPU is borrowed outside of these cells."
          : `${plural(borrowed, "GPU")} borrowed outside of these cells, by opportunistic jobs.`}
      </p>
      {cells.demoted.length === 0 ? null : (
        <p className={classes.beyond}>
          Guaranteed jobs that have lost their cells, and run on as opportunistic ones:{" "}
          {cells.demoted.map((id, index) => (
            <span key={id}>
              {index === 0 ? "" : ", "}
              <Link to="/jobs/$jobId" params={{ jobId: String(id) }} className="link">
                {id}
              </Link>
            </span>
          ))}
        </p>
      )}
    </section>
  );
}
