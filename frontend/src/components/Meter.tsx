import type { ReactNode } from "react";

import { percent } from "../format/amount";
import classes from "./Meter.module.css";

interface Props {
  label: ReactNode;
  name: string;
  used: number;
  total: number;
  /** The figures in words, where "3 of 8" is not enough. */
  figures?: ReactNode;
  thin?: boolean;
  /** Amber when all is used: that is where jobs begin to wait. */
  warnFull?: boolean;
}

export function Meter({ label, name, used, total, figures, thin = false, warnFull = false }: Props) {
  const share = Math.min(100, percent(used, total));
  const full = warnFull && total > 0 && used >= total;
  return (
    <div>
      <div className={classes.head}>
        <span className="truncate">{label}</span>
        <span className={classes.figures}>
          {figures ?? (
            <>
              <strong>{used}</strong> / {total}
            </>
          )}
        </span>
      </div>
      <div
        className={thin ? `${classes.track} ${classes.thin}` : classes.track}
        role="meter"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={share}
        aria-valuetext={`${share} %`}
      >
        <div
          className={full ? `${classes.fill} ${classes.full}` : classes.fill}
          style={{ width: `${share}%` }}
        />
      </div>
    </div>
  );
}
