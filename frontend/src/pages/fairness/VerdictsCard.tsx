import { NativeSelect } from "@mantine/core";

import type { PolicyVerdicts } from "../../api/types";
import { SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import { plural } from "../../format/amount";
import { sentence } from "../../format/words";
import classes from "./FairnessPage.module.css";
import { grouped, verdictWords, type Witness } from "./verdicts";

const WITNESSES = 5;

const PROPERTIES = [
  {
    key: "sharing_incentive",
    name: "Sharing incentive",
    words: "No tenant would be better off alone with its quota.",
  },
  {
    key: "pareto_efficiency",
    name: "Pareto efficiency",
    words: "No tenant could do more without another doing less.",
  },
  {
    key: "envy_freeness",
    name: "No envy",
    words: "No tenant with an equal share would rather have what another one holds.",
  },
] as const;

interface Props {
  verdicts: readonly PolicyVerdicts[];
  policies: readonly string[];
  other: string | undefined;
  /** Whether the verdicts on another policy are awaited. */
  busy: boolean;
  onOther: (policy: string) => void;
}

/** Whether the pool's policy is fair, and another one beside it, on the pool's own history. */
export function VerdictsCard({ verdicts, policies, other, busy, onOther }: Props) {
  const own = verdicts.find((each) => each.today);
  const decidedBy = Object.entries(own?.decided_by ?? {});
  return (
    <section className={`card ${classes.card}`} aria-label="Verdicts" aria-busy={busy}>
      <SectionHead title="Verdicts on stored snapshots" term="verdict">
        <NativeSelect
          size="xs"
          aria-label="Compare with a policy"
          data={[
            { value: "", label: "Compare with…" },
            ...policies.filter((name) => name !== own?.policy).map((name) => ({ value: name, label: name })),
          ]}
          value={other ?? ""}
          onChange={(event) => onOther(event.currentTarget.value)}
        />
      </SectionHead>
      {decidedBy.length === 0 ? null : (
        <p className={classes.faint}>
          What each policy would give out of {plural(own?.snapshots ?? 0, "snapshot")} of this pool with
          waiting jobs, which {decidedBy.map(([policy, number]) => `${policy} (${number})`).join(" and ")}{" "}
          decided at the time.
        </p>
      )}
      <div className={classes.scroll} tabIndex={0} role="group" aria-label="Verdicts by policy">
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Property</th>
              {verdicts.map(({ policy, today }) => (
                <th key={policy} scope="col">
                  {policy}
                  {today ? ", the pool’s policy" : ""}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {PROPERTIES.map(({ key, name, words }) => (
              <tr key={key}>
                <th scope="row">
                  {name}
                  <small>{words}</small>
                </th>
                {verdicts.map((each) => {
                  const { kept, words } = verdictWords(
                    each.snapshots,
                    each.snapshots - each[key],
                    key === "pareto_efficiency" ? each.kept_by_quotas : 0,
                  );
                  return (
                    <td key={each.policy} data-kept={kept}>
                      {words}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className={classes.witnesses}>
        {verdicts.map((each) => (
          <div key={each.policy}>
            <h3>What shows it under {each.policy}</h3>
            {each.kept_by_quotas === 0 ? null : (
              <p className={classes.faint}>
                A tenant keeps its quota free for itself, also while jobs of others wait. An admission that
                lends, such as borrow or tree, gives idle GPUs to others until their owner wants them.
              </p>
            )}
            {each.problem === "" ? null : <p className={classes.faint}>{sentence(each.problem)}.</p>}
            {each.witnesses.length === 0 ? (
              <p className={classes.faint}>
                {each.snapshots === 0
                  ? "No snapshot with waiting jobs is stored."
                  : "All three properties held in each snapshot."}
              </p>
            ) : (
              <Witnesses all={grouped(each.witnesses)} />
            )}
          </div>
        ))}
      </div>
    </section>
  );
}

function Witnesses({ all }: { all: readonly Witness[] }) {
  return (
    <ul>
      {all.slice(0, WITNESSES).map((one) => (
        <li key={one.sentence}>
          {sentence(one.sentence)}. <Ago at={one.at} />
          {one.times === 1 ? "" : `, and in ${plural(one.times - 1, "snapshot")} before`}
        </li>
      ))}
      {all.length > WITNESSES ? <li>And {all.length - WITNESSES} more.</li> : null}
    </ul>
  );
}
