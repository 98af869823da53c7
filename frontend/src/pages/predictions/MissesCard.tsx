import { IconCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { WaitRecord } from "../../api/types";
import { Empty } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import classes from "./PredictionsPage.module.css";
import { missWords } from "./record";

const MAX_MISSES = 10;

/** The jobs that waited the most times longer than their p90, as links. */
export function MissesCard({ misses }: { misses: WaitRecord["worst"] }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Worst misses">
      <SectionHead title="Worst misses">
        <span>Jobs that you may see</span>
      </SectionHead>
      {misses.length === 0 ? (
        <Empty icon={<IconCheck size={20} />} title="No job waited longer than its p90" />
      ) : (
        <ul className={classes.misses}>
          {misses.slice(0, MAX_MISSES).map((miss) => (
            <li key={miss.id}>
              <Link to="/jobs/$jobId" params={{ jobId: String(miss.id) }} className="link">
                {miss.name} <span className="mono">#{miss.id}</span>
              </Link>
              <span>{missWords(miss)}</span>
              <span className={classes.faint}>
                submitted <Ago at={miss.submitted_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
