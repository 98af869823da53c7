import { useId } from "react";

import type { NodeDetail } from "../../api/types";
import classes from "./LinkMatrix.module.css";
import { kindsIn, linkKind, numaWords } from "./links";

/** How close the GPUs of a node are to each other, and what the words and numbers mean. */
export function LinkMatrix({ node }: { node: NodeDetail }) {
  const title = useId();
  const { links } = node;
  if (links.length < 2) return null;
  const numa = numaWords(node.gpus);
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className={classes.title}>
        Links between GPUs
      </h3>
      <div className={classes.scroll} role="group" aria-labelledby={title} tabIndex={0}>
        <table className={classes.matrix}>
          <thead>
            <tr>
              <th scope="col">GPU</th>
              {links.map((_, other) => (
                <th key={other} scope="col">
                  {other}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {links.map((row, one) => (
              <tr key={one}>
                <th scope="row">{one}</th>
                {row.map((score, other) =>
                  one === other ? (
                    <td key={other} className={classes.itself}>
                      –
                    </td>
                  ) : (
                    <LinkCell key={other} score={score} />
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <table className={classes.legend}>
        <thead>
          <tr>
            <th scope="col">Link</th>
            <th scope="col">Between two GPUs</th>
            <th scope="col">Score</th>
          </tr>
        </thead>
        <tbody>
          {kindsIn(links).map((kind) => (
            <tr key={kind.score}>
              <th scope="row">
                <span className={classes.swatch} data-shade={kind.shade}>
                  {kind.short}
                </span>
              </th>
              <td>{kind.words}</td>
              <td className="tabular">{kind.score}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className={classes.note}>
        The higher the score, the closer. Where the pool places jobs by topology, a job gets the closest GPUs
        that are free.{numa === "" ? "" : ` ${numa}.`}
      </p>
    </section>
  );
}

function LinkCell({ score }: { score: number }) {
  const kind = linkKind(score);
  return (
    <td data-shade={kind.shade} title={`${kind.words}: ${kind.score}`}>
      {kind.short}
    </td>
  );
}
