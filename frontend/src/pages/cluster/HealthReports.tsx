import { useId } from "react";

import type { HealthReport, NodeDetail } from "../../api/types";
import { Ago } from "../../components/Time";
import classes from "./Strikes.module.css";

/** What the agent reported of the node's GPUs; nothing where all were always well. */
export function HealthReports({ node, isOperator }: { node: NodeDetail; isOperator: boolean }) {
  const title = useId();
  if (node.health_reports.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className={classes.title}>
        Health of GPUs
      </h3>
      <ul className={classes.list}>
        {node.health_reports.map((report, index) => (
          <Report key={`${report.at} ${index}`} report={report} />
        ))}
      </ul>
      {isOperator && node.gpus.some((gpu) => gpu.health !== "ok") ? (
        <p className={classes.note}>
          <a className="link" href={`/admin/fleet/node/?q=${encodeURIComponent(node.name)}`}>
            Repair them in the admin
          </a>
        </p>
      ) : null}
    </section>
  );
}

const LEVELS: Record<HealthReport["level"], string> = { ok: "Noted", warning: "Warning", failure: "Failure" };

function Report({ report }: { report: HealthReport }) {
  const which = report.gpu === null ? "" : `, GPU ${report.gpu}`;
  const xid = report.xid === null ? "" : `Xid ${report.xid}: `;
  return (
    <li className={classes.strike} data-forgiven={report.over_at === null ? undefined : true}>
      <span className={classes.what}>
        {LEVELS[report.level]}
        {which}
        {report.count > 1 ? `, ${report.count} times` : ""}
        {report.over_at === null ? "" : " (over)"}
      </span>
      <span className={classes.when}>
        <Ago at={report.last_at} />
      </span>
      <span className={classes.detail}>
        {xid}
        {report.words}
        {report.detail === null || report.detail === "" ? "" : ` (${report.detail})`}
      </span>
    </li>
  );
}
