import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";

import { changeEmail } from "../../api/account";
import { meQuery } from "../../api/queries";
import { useMe } from "../../app/me";
import { SectionHead } from "../../components/Page";
import { toast } from "../../components/toast";
import { refusalsOf } from "./refusals";
import classes from "./SettingsPage.module.css";

/** Changing the address to which the caller's mail goes. */
export function Email() {
  const client = useQueryClient();
  const me = useMe();
  const [email, setEmail] = useState(me.email);
  const [current, setCurrent] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusals, setRefusals] = useState<Record<string, string>>({});

  const change = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setRefusals({});
    try {
      client.setQueryData(meQuery.queryKey, await changeEmail(email.trim(), current));
      setCurrent("");
      toast("done", email.trim() === "" ? "You get no more mail" : "Your e-mail address is changed");
    } catch (error) {
      setRefusals(refusalsOf(error, "email"));
    } finally {
      setBusy(false);
    }
  };

  return (
    <section className={`card ${classes.card}`} aria-label="E-mail address">
      <SectionHead title="E-mail address" />
      <p className={classes.sub}>Notifications by mail go there. Leave it empty to get none.</p>
      <form className={classes.form} onSubmit={(event) => void change(event)}>
        <TextInput
          label="Address"
          type="email"
          autoComplete="email"
          value={email}
          error={refusals.email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label="Your password"
          autoComplete="current-password"
          value={current}
          error={refusals.current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <Button type="submit" size="xs" loading={busy} disabled={current === "" || email.trim() === me.email}>
          Change address
        </Button>
      </form>
    </section>
  );
}
