import { ago, duration, fullTime, secondsBetween } from "../format/time";
import { useNow } from "./now";

/** How long ago something was, with the exact time on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={fullTime(at)} className="tabular">
      {ago(at, now)}
    </time>
  );
}

/** The time from one moment to another, or until now while there is no other. */
export function Elapsed({ from, to }: { from: string; to: string | null }) {
  return to === null ? (
    <Ticking from={from} />
  ) : (
    <span className="tabular">{duration(secondsBetween(from, to))}</span>
  );
}

function Ticking({ from }: { from: string }) {
  const now = useNow();
  return <span className="tabular">{duration(secondsBetween(from, now))}</span>;
}
