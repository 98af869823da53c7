import { IconArrowsExchange } from "@tabler/icons-react";

import type { Loan } from "../../api/types";
import { SectionHead } from "../../components/Page";
import { Empty } from "../../components/Notice";
import { Ago } from "../../components/Time";
import { duration, secondsBetween } from "../../format/time";
import classes from "./VcPage.module.css";

/** What is lent and borrowed now, and what was lately. */
export function LoansCard({ loans }: { loans: readonly Loan[] }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Loans">
      <SectionHead title="Loans" term="loan">
        <span className={classes.faint}>Now, and in the last 30 days</span>
      </SectionHead>
      {loans.length === 0 ? (
        <Empty icon={<IconArrowsExchange size={20} />} title="No loans">
          This virtual cluster has neither lent nor borrowed a GPU lately.
        </Empty>
      ) : (
        <div className={classes.scroll} tabIndex={0} role="group" aria-label="Loans as a table">
          <table className={classes.table}>
            <thead>
              <tr>
                <th scope="col">Loan</th>
                <th scope="col" className={classes.number}>
                  GPUs
                </th>
                <th scope="col">Began</th>
                <th scope="col">Lasted</th>
              </tr>
            </thead>
            <tbody>
              {loans.map((loan, index) => (
                <tr key={index}>
                  <th scope="row">
                    {loan.direction === "lent" ? "Lent to" : "Borrowed from"} {loan.other}
                  </th>
                  <td className={classes.number}>
                    {loan.gpus} <span className="mono">{loan.gpu_type}</span>
                  </td>
                  <td>
                    <Ago at={loan.since} />
                  </td>
                  <td>{loan.until === null ? "open" : duration(secondsBetween(loan.since, loan.until))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
