import classes from "./Shares.module.css";

/** GPUs of one type in a pool: what other quotas promise, what this one has or shall have, and what is beyond the pool. */
export function PromiseBar({
  label,
  total,
  others,
  wanted,
}: {
  label: string;
  total: number;
  others: number;
  wanted: number;
}) {
  const whole = Math.max(1, total, others + wanted);
  const beyond = Math.max(0, others + wanted - total);
  const parts = [
    ["others", Math.min(others, total)],
    ["held", Math.max(0, Math.min(wanted, total - others))],
    ["beyond", beyond],
    ["free", Math.max(0, total - others - wanted)],
  ] as const;
  const words =
    beyond > 0
      ? `${others} promised to others + ${wanted} = ${others + wanted} of ${total}: ${beyond} too many`
      : `${others} promised to others + ${wanted} = ${others + wanted} of ${total}`;
  return (
    <div className={classes.share}>
      <div className={classes.track} role="img" aria-label={`${label}: ${words}`}>
        {parts.map(([part, gpus]) =>
          gpus > 0 ? (
            <span key={part} data-part={part} style={{ width: `${(100 * gpus) / whole}%` }} />
          ) : null,
        )}
      </div>
      <span className={beyond > 0 ? classes.bad : classes.faint}>{words}</span>
    </div>
  );
}
