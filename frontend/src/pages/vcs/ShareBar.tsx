import type { VcQuota } from "../../api/types";
import { partsOf, partsWords, type Parts } from "./shares";
import classes from "./Shares.module.css";

const PARTS = [
  "held",
  "lent",
  "free",
  "borrowed",
  "opportunistic",
] as const satisfies readonly (keyof Parts)[];
const LABELS: Record<keyof Parts, string> = {
  held: "Used of the quota",
  lent: "Lent",
  free: "Free",
  borrowed: "Borrowed beyond the quota",
  opportunistic: "Opportunistic, beside the quota",
};

/** The quota of one GPU type as a bar: what is used, lent and free of it, and behind its end what is held beside. */
export function ShareBar({ quota, of }: { quota: VcQuota; of: string }) {
  const parts = partsOf(quota);
  const whole = Math.max(
    1,
    PARTS.reduce((sum, part) => sum + parts[part], 0),
  );
  return (
    <div className={classes.share}>
      <div className={classes.shareHead}>
        <span className="mono truncate">{quota.gpu_type}</span>
        <span className={classes.faint}>{partsWords(quota)}</span>
      </div>
      <div className={classes.track} role="img" aria-label={`${of}, ${quota.gpu_type}: ${partsWords(quota)}`}>
        {PARTS.map((part) =>
          parts[part] > 0 ? (
            <span key={part} data-part={part} style={{ width: `${(100 * parts[part]) / whole}%` }} />
          ) : null,
        )}
      </div>
    </div>
  );
}

export function ShareLegend({ inCells = false }: { inCells?: boolean }) {
  return (
    <ul className={classes.legend} aria-hidden="true">
      {PARTS.filter((part) => inCells || part !== "opportunistic").map((part) => (
        <li key={part}>
          <span className={classes.swatch} data-part={part} />
          {LABELS[part]}
        </li>
      ))}
    </ul>
  );
}
