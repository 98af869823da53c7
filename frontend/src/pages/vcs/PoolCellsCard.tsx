import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { poolCellsQuery } from "../../api/treeQueries";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { physicalBox } from "./boxes";
import { CellBoxes } from "./CellBoxes";
import classes from "./VcPage.module.css";

/** The physical cells of a pool, what of them is bound and used, and what does not fit now. */
export function PoolCellsCard({ pool }: { pool: string }) {
  const query = useQuery(poolCellsQuery(pool));
  const boxes = useMemo(() => (query.data?.physical ?? []).map(physicalBox), [query.data]);
  if (query.isPending) return null;
  return (
    <section className={`card ${classes.card}`} aria-label={`Cells of pool ${pool}`}>
      <SectionHead title={`Cells of pool ${pool}`} term="cell">
        <span className={classes.faint}>
          {query.data?.source === "measured" ? "Cut from the measured topology" : "Cut by configuration"}
        </span>
      </SectionHead>
      {query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <>
          {query.data.problems.map((problem) => (
            <p key={problem} className={`${classes.refusal} ${classes.problem}`}>
              {problem}
            </p>
          ))}
          <CellBoxes boxes={boxes} label={`Cells of pool ${pool}`} ofPool />
        </>
      )}
    </section>
  );
}
