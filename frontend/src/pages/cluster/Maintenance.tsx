import { useId } from "react";

import type { NodeDetail } from "../../api/types";
import { Time } from "../../components/Time";
import classes from "./Strikes.module.css";

/** When a node is to be free of jobs, and why; nothing for one of which nothing is planned. */
export function Maintenance({ node }: { node: NodeDetail }) {
  const title = useId();
  if (node.maintenance.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className={classes.title}>
        Maintenance
      </h3>
      <ul className={classes.list}>
        {node.maintenance.map((one) => (
          <li key={one.id} className={classes.strike}>
            <span className={classes.what}>{one.reason}</span>
            <span className={classes.when}>{one.begun_at === null ? "planned" : "under way"}</span>
            <span className={classes.detail}>
              <Time at={one.begins_at} /> to <Time at={one.ends_at} />
              {one.node === null ? `, every node of ${one.pool}` : ""}
            </span>
          </li>
        ))}
      </ul>
      <p className={classes.note}>
        Nothing starts here that might not have ended by then.{" "}
        {node.maintenance.some((one) => one.running_jobs === "move")
          ? "Preemptible jobs that still run then are stopped and queued again."
          : "Jobs that still run then are waited for."}
      </p>
    </section>
  );
}
