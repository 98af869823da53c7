import { Link } from "@tanstack/react-router";

import type { Auction, PoolDecisions } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import { plural } from "../../format/amount";
import { duration } from "../../format/time";
import { bidWords, gpusWords, partWords } from "./auctions";
import classes from "./FairnessPage.module.css";

/** The last auctions of a pool: what was offered to which application, what it bid and won, and what was left over. */
export function AuctionsCard({ decisions }: { decisions: PoolDecisions }) {
  const { auctions, policy, wakes_at } = decisions;
  return (
    <section className={`card ${classes.card}`} aria-label="Last auctions">
      <SectionHead title="Last auctions" term="auction" />
      {auctions.length === 0 ? (
        <p className={classes.faint}>
          {policy !== "themis" ? (
            `The policy of this pool is ${policy}; only themis holds auctions.`
          ) : (
            <>
              No auction has been held yet. Themis holds one when GPUs are free or a lease has ended, and a
              job or sweep wants them. Jobs that ran before it decided here keep their GPUs for one lease from
              their start.
              {wakes_at === null ? null : (
                <>
                  {" "}
                  Themis decides again <Ago at={wakes_at} />.
                </>
              )}
            </>
          )}
        </p>
      ) : (
        auctions.map((auction, index) => (
          <OneAuction key={auction.number} auction={auction} open={index === 0} />
        ))
      )}
    </section>
  );
}

function OneAuction({ auction, open }: { auction: Auction; open: boolean }) {
  const { bids, wins, outside } = auction;
  return (
    <details className={classes.auction} open={open}>
      <summary>
        <strong>Auction {auction.number}</strong>{" "}
        <span className={classes.faint}>
          <Ago at={auction.at} /> · {gpusWords(auction.offer)} offered · {plural(bids.length, "bid")},{" "}
          {wins.length === 0 ? "none won" : `${wins.length} won`}
        </span>
      </summary>
      <div
        className={classes.scroll}
        tabIndex={0}
        role="group"
        aria-label={`Bids of auction ${auction.number}`}
      >
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Application</th>
              <th scope="col" className={classes.number}>
                ρ before
              </th>
              <th scope="col">Bid: 1/ρ with these GPUs more</th>
              <th scope="col">Won</th>
              <th scope="col">Lease after the payment</th>
            </tr>
          </thead>
          <tbody>
            {bids.map((bid) => (
              <BidRow key={bid.application} bid={bid} auction={auction} />
            ))}
          </tbody>
        </table>
      </div>
      <p className={classes.faint}>
        {outside === 0
          ? "Each application that wanted GPUs could bid. "
          : `${plural(outside, "application")} could not bid, as ${outside === 1 ? "it is" : "they are"} served better. `}
        <Jobs ids={auction.drawn}>Left-overs went by lot to </Jobs>
        <Jobs ids={auction.without_room}>No node had room for </Jobs>
        {Object.keys(auction.left).length === 0
          ? "Nothing was left over."
          : `Left over: ${gpusWords(auction.left)}.`}
      </p>
    </details>
  );
}

function BidRow({ bid, auction }: { bid: Auction["bids"][number]; auction: Auction }) {
  const win = auction.wins.find(({ application }) => application === bid.application);
  const refused = auction.refused.find(({ application }) => application === bid.application);
  return (
    <tr>
      <td>
        <Application name={bid.application} />
        <small>{[bid.name, bid.tenant].filter((name) => name !== "").join(" · ")}</small>
      </td>
      <td className={classes.number}>{bid.rho === null ? "∞" : figure(bid.rho)}</td>
      <td className={classes.words}>
        {refused === undefined ? bidWords(bid.rows) : `Refused: ${refused.why}`}
      </td>
      <td>{win === undefined ? "–" : gpusWords({ [win.gpu_type]: win.gpus })}</td>
      <td>{win === undefined ? "–" : `${duration(win.lease_s)}, ${partWords(win.part)}`}</td>
    </tr>
  );
}

/** A sentence that ends in jobs; nothing without jobs. */
function Jobs({ ids, children }: { ids: readonly number[]; children: string }) {
  if (ids.length === 0) return null;
  return (
    <>
      {children}
      {ids.map((id, index) => (
        <span key={id}>
          {index === 0 ? "" : ", "}
          <Application name={`job ${id}`} />
        </span>
      ))}
      {". "}
    </>
  );
}

/** `job 12` or `sweep 3`, with a way to its page. */
function Application({ name }: { name: string }) {
  const [kind, id = ""] = name.split(" ");
  return kind === "sweep" ? (
    <Link to="/sweeps/$sweepId" params={{ sweepId: id }} className="link">
      {name}
    </Link>
  ) : (
    <Link to="/jobs/$jobId" params={{ jobId: id }} className="link">
      {name}
    </Link>
  );
}
