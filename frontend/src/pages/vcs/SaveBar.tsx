import { Button } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import type { Problem } from "../../api/problem";
import { conflictOf, type Saving } from "./useSaving";
import classes from "./VcPage.module.css";

interface Props {
  /** What of the form cannot be sent, as a sentence; empty: nothing. */
  mistake: string;
  /** What the server refuses of it. */
  refused: Problem | undefined;
  /** What would not fit though the form is valid. */
  unfit?: string;
  changed: boolean;
  checked: boolean;
  saving: Saving;
  onReset: () => void;
  /** Loads what another person has saved into the form. */
  onReload: () => Promise<void>;
}

/** The end of a form: what does not fit, saving, and what to do if another person saved meanwhile. */
export function SaveBar({
  mistake,
  refused,
  unfit = "",
  changed,
  checked,
  saving,
  onReset,
  onReload,
}: Props) {
  const conflict = saving.conflict ?? conflictOf(refused);
  const problem = mistake !== "" ? mistake : (refused?.message ?? unfit);
  return (
    <>
      {conflict !== null ? (
        <div className={classes.refusal} role="alert">
          <IconAlertTriangle size={16} aria-hidden="true" />
          <p>{conflict.message}</p>
          <Button size="xs" variant="default" onClick={() => void onReload().then(saving.forget)}>
            Reload
          </Button>
        </div>
      ) : problem !== "" && changed ? (
        <div className={classes.refusal} role="alert">
          <IconAlertTriangle size={16} aria-hidden="true" />
          <p>{problem}</p>
        </div>
      ) : null}
      <div className={classes.save}>
        <Button
          onClick={saving.save}
          loading={saving.saving}
          disabled={!changed || !checked || problem !== "" || conflict !== null}
        >
          Save
        </Button>
        <Button variant="default" onClick={onReset} disabled={!changed || saving.saving}>
          Discard
        </Button>
        <span className={classes.faint} role="status">
          {!changed ? "" : !checked ? "Checking…" : problem === "" && conflict === null ? "This fits." : ""}
        </span>
      </div>
    </>
  );
}
