import { Button, PasswordInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";

import { changePassword } from "../../api/account";
import { sessionsQuery, tokensQuery } from "../../api/accountQueries";
import { SectionHead } from "../../components/Page";
import { toast } from "../../components/toast";
import { refusalsOf } from "./refusals";
import classes from "./SettingsPage.module.css";

/** Changing the caller's password. */
export function Password() {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [wanted, setWanted] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusals, setRefusals] = useState<Record<string, string>>({});

  const change = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setRefusals({});
    try {
      await changePassword(current, wanted);
      setCurrent("");
      setWanted("");
      toast("done", "Your password is changed");
      await Promise.all(
        [sessionsQuery, tokensQuery].map(({ queryKey }) => client.invalidateQueries({ queryKey })),
      );
    } catch (error) {
      setRefusals(refusalsOf(error, "new"));
    } finally {
      setBusy(false);
    }
  };

  return (
    <section className={`card ${classes.card}`} aria-label="Password">
      <SectionHead title="Password" />
      <p className={classes.sub}>
        A new password ends your other sessions, and your tokens unless they are marked to stay.
      </p>
      <form className={classes.form} onSubmit={(event) => void change(event)}>
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          value={current}
          error={refusals.current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          autoComplete="new-password"
          value={wanted}
          error={refusals.new}
          onChange={(event) => setWanted(event.currentTarget.value)}
        />
        <Button type="submit" size="xs" loading={busy} disabled={current === "" || wanted === ""}>
          Change password
        </Button>
      </form>
    </section>
  );
}
