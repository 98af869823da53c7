import classes from "./SweepPage.module.css";
import { MEMBER_STATES } from "./words";

type State = (typeof MEMBER_STATES)[number]["state"];

/** How many members there are, and how many in each state, as a bar and in words. */
export function MemberStates({ members }: { members: Partial<Record<State, number>> & { total: number } }) {
  const states = MEMBER_STATES.map((each) => ({ ...each, many: members[each.state] ?? 0 })).filter(
    ({ many }) => many > 0,
  );
  return (
    <div>
      <h2 className={classes.label}>Members</h2>
      <p className={classes.big}>{members.total}</p>
      <div className={classes.bar} aria-hidden="true">
        {states.map(({ state, colour, many }) => (
          <span key={state} style={{ flexGrow: many, background: colour }} />
        ))}
      </div>
      <ul className={classes.states}>
        {states.map(({ state, label, colour, many }) => (
          <li key={state}>
            <span className={classes.dot} style={{ background: colour }} aria-hidden="true" />
            {many} {label.toLowerCase()}
          </li>
        ))}
      </ul>
    </div>
  );
}
