import { IconUser } from "@tabler/icons-react";

import type { RunTimeRecord } from "../../api/types";
import { Empty } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { count } from "../../format/amount";
import table from "../fairness/FairnessPage.module.css";
import { factorWords, shareWords } from "./record";

/** How right owners' own estimates were: one's own, and those of all whose jobs one may see as a manager. */
export function EstimatesCard({ estimates }: { estimates: RunTimeRecord["estimates"] }) {
  return (
    <section className={`card ${table.card}`} aria-label="Owners’ estimates">
      <SectionHead title="Owners’ estimates" term="estimate" />
      {estimates.length === 0 ? (
        <Empty icon={<IconUser size={20} />} title="No job with an estimate of its owner has ended">
          Name how long a job runs with <code>expected</code> in its spec, and its record appears here.
        </Empty>
      ) : (
        <div className={table.scroll} tabIndex={0} role="group" aria-label="Estimates by owner">
          <table className={table.table}>
            <thead>
              <tr>
                <th scope="col">Owner</th>
                {["Jobs", "Took, of expected", "Within a factor of 2"].map((name) => (
                  <th key={name} scope="col" className={table.number}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {estimates.map((each) => (
                <tr key={each.owner}>
                  <th scope="row">{each.owner}</th>
                  <td className={table.number}>{count(each.jobs)}</td>
                  <td className={table.number}>{factorWords(each.median_ratio)}</td>
                  <td className={table.number}>{shareWords(each.within_2x)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
