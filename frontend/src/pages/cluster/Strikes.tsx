import { Link } from "@tanstack/react-router";
import { useId } from "react";

import type { NodeDetail, NodeStrike } from "../../api/types";
import { Ago } from "../../components/Time";
import { reasonWords } from "../../format/words";
import classes from "./Strikes.module.css";

/** `2.5`, `0.04`: with no more digits than tell something. */
export const strikesWords = (strikes: number): string =>
  String(Number(strikes.toFixed(strikes < 0.1 ? 2 : 1)));

/** What a node was last blamed for; nothing for one that never was. */
export function Strikes({ node, isOperator }: { node: NodeDetail; isOperator: boolean }) {
  const title = useId();
  if (node.last_strikes.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className={classes.title}>
        Strikes <span className={classes.sum}>count {strikesWords(node.strikes)} now</span>
      </h3>
      <ul className={classes.list}>
        {node.last_strikes.map((strike, index) => (
          <Strike key={`${strike.at} ${index}`} strike={strike} />
        ))}
      </ul>
      <p className={classes.note}>
        Failures that the node is blamed for. Each counts less with age, and jobs are placed elsewhere first.{" "}
        {isOperator && node.strikes > 0 ? (
          <a className="link" href={`/admin/fleet/node/?q=${encodeURIComponent(node.name)}`}>
            Forgive them in the admin
          </a>
        ) : null}
      </p>
    </section>
  );
}

function Strike({ strike }: { strike: NodeStrike }) {
  return (
    <li className={classes.strike} data-forgiven={strike.forgiven_at === null ? undefined : true}>
      <span className={classes.what}>
        {reasonWords(strike.reason)}
        {strike.gpu === null ? "" : `, GPU ${strike.gpu}`}
        {strike.forgiven_at === null ? "" : " (forgiven)"}
      </span>
      <span className={classes.when}>
        {strike.job === null ? null : (
          <>
            <Link to="/jobs/$jobId" params={{ jobId: String(strike.job) }} className="link">
              Job {strike.job}
            </Link>
            {" · "}
          </>
        )}
        <Ago at={strike.at} />
      </span>
      {strike.detail === null || strike.detail === "" ? null : (
        <span className={classes.detail}>{strike.detail}</span>
      )}
    </li>
  );
}
