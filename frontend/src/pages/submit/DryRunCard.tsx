import { Loader } from "@mantine/core";
import { IconBulb, IconCheck, IconClock, IconInfoSmall, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { Unreachable, type FieldError } from "../../api/problem";
import type { DryRun, Hold } from "../../api/types";
import { useMe } from "../../app/me";
import { ordinal } from "../../format/amount";
import { gpuCount } from "../../format/request";
import { holdWords, sentence } from "../../format/words";
import classes from "./DryRunCard.module.css";
import { sizeWords } from "./sizes";

interface Props {
  result: DryRun | undefined;
  /** What is wrong with the text or with fields; nothing else is worth saying then. */
  errors: readonly FieldError[];
  failure: Error | null;
  busy: boolean;
  /** True where the spec is of a sweep, and what is checked is one of its members. */
  ofMember?: boolean;
  children: ReactNode;
}

type Mood = "yes" | "no" | "wait" | "note";

const ICONS = { yes: IconCheck, no: IconX, wait: IconClock, note: IconInfoSmall };

function Line({ mood, children }: { mood: Mood; children: ReactNode }) {
  const Icon = ICONS[mood];
  return (
    <li className={classes.line}>
      <span className={classes.icon} data-mood={mood} aria-hidden="true">
        <Icon size={13} stroke={2.6} />
      </span>
      <span>{children}</span>
    </li>
  );
}

/** Why it would wait, and what would help. */
function Why({ hold }: { hold: Hold }) {
  const { vcs: names } = useMe();
  return (
    <div className={classes.hold}>
      <p>{sentence(hold.detail, names)}</p>
      {hold.helps.map((help) => (
        <p key={help} className={classes.help}>
          <IconBulb size={15} aria-hidden="true" />
          <span>{sentence(help, names)}</span>
        </p>
      ))}
    </div>
  );
}

/** When it would start, as far as that can be forecast. */
function Forecast({ result: { wait, wait_unknown: unknown } }: { result: DryRun }) {
  if (wait !== null) return <Line mood="wait">Its start: {wait.says}</Line>;
  return unknown === "" ? null : <Line mood="note">When it would start is not known: {unknown}</Line>;
}

function Verdict({ result }: { result: DryRun }) {
  const { hold, screening, runtime } = result;
  return (
    <>
      <ul className={classes.lines}>
        <Line mood="yes">
          The spec is valid: {gpuCount({ gpu_choices: result.gpu_choices, nodes: result.spec.nodes ?? 1 })} in
          total
        </Line>
        <Line mood="note">On each node {sizeWords(result.sizes)}</Line>
        <Line mood={result.feasible ? "yes" : "no"}>
          {result.feasible ? "The cluster can run it" : "No node of the cluster can run it"}
        </Line>
        <Line mood={result.fits_quota ? "yes" : "no"}>
          {result.fits_quota ? "It fits the quota" : "It asks for more than the whole quota"}
        </Line>
        <Line mood={runtime.of > 0 && runtime.nodes === 0 ? "no" : "yes"}>{runtimeSentence(runtime)}</Line>
        {screening.tried ? (
          <Line mood="wait">
            It would be screened first: {screening.why};{" "}
            {screening.hold === null
              ? "that would start now"
              : `for that it would wait: ${holdWords(screening.hold.reason).toLowerCase()}`}
          </Line>
        ) : null}
        {result.starts_now ? (
          <Line mood="yes">It would start now</Line>
        ) : screening.tried && hold === null ? (
          <Line mood="yes">It would start after that</Line>
        ) : !couldRun(result) ? (
          <Line mood="no">It would not start before the pool or the quota grows</Line>
        ) : (
          <Line mood="wait">
            It would wait
            {result.position === null ? "" : `, ${ordinal(result.position)} in the queue`}
            {hold === null ? "" : `: ${holdWords(hold.reason).toLowerCase()}`}
          </Line>
        )}
        {result.starts_now || !couldRun(result) ? null : <Forecast result={result} />}
        {result.notes.map((note) => (
          <Line key={note} mood="note">
            {note}
          </Line>
        ))}
      </ul>
      {screening.hold === null ? null : <Why hold={screening.hold} />}
      {hold === null ? null : <Why hold={hold} />}
    </>
  );
}

const RUNS = { container: "in a container", process: "as a process", either: "as its node says" } as const;

/** In what it would run, why, and how many nodes of the pool offer that. */
const runtimeSentence = ({ runtime, why, nodes, of }: DryRun["runtime"]): string =>
  `It would run ${RUNS[runtime]}, as ${why}${of === 0 ? "" : `; ${nodes} of ${of} nodes offer that`}`;

/** Whether the pool and the quota, if both were empty, have room for the job; also while that is not known. */
export const couldRun = (result: DryRun | undefined): boolean =>
  result === undefined || (result.feasible && result.fits_quota);

/** What would become of the job if it was submitted now. */
export function DryRunCard({ result, errors, failure, busy, ofMember = false, children }: Props) {
  return (
    <section className={`card ${classes.card}`} aria-label="Dry run">
      <h2 className={classes.title}>
        {ofMember ? "Dry run of one member" : "Dry run"}
        {busy ? <Loader size={13} color="gray" role="status" aria-label="Checking" /> : null}
      </h2>
      <div aria-live="polite">
        {errors.length > 0 ? (
          <ul className={classes.lines}>
            {errors.map((error) => (
              <Line key={error.field + error.message} mood="no">
                {error.field === "" ? null : <code className={classes.field}>{error.field}</code>}{" "}
                {error.message}
              </Line>
            ))}
          </ul>
        ) : failure !== null ? (
          <p className={classes.note}>
            {failure instanceof Unreachable
              ? "Muster does not answer; nothing could be checked."
              : failure.message}
          </p>
        ) : result === undefined ? (
          <p className={classes.note}>Checking whether it fits…</p>
        ) : (
          <Verdict result={result} />
        )}
      </div>
      {children}
    </section>
  );
}
