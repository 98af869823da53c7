import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useEffect, useState, type SubmitEvent } from "react";

import { signIn } from "../../api/client";
import { messageOf, Problem, Unreachable } from "../../api/problem";
import { meQuery } from "../../api/queries";
import { safeNext } from "../../app/search";
import { Mark } from "../../components/Logo";
import classes from "./SignInPage.module.css";

const route = getRouteApi("/signin");

function whyNot(error: unknown): string {
  if (error instanceof Unreachable) return "Muster does not answer. Try again in a moment.";
  if (error instanceof Problem && error.status < 500 && error.status !== 429)
    return "The user name or the password is not right.";
  return messageOf(error);
}

export function SignInPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const client = useQueryClient();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");

  useEffect(() => {
    document.title = "Sign in · Muster";
  }, []);

  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setRefusal("");
    try {
      const me = await signIn(username, password);
      client.setQueryData(meQuery.queryKey, me);
      router.history.push(safeNext(next));
    } catch (error) {
      setRefusal(whyNot(error));
      setPassword("");
    } finally {
      setBusy(false);
    }
  };

  return (
    <main className={classes.page}>
      <div className={classes.field} aria-hidden="true" />
      <form className={classes.card} onSubmit={(event) => void enter(event)} aria-label="Sign in">
        <Mark size={40} />
        <h1 className={classes.title}>Sign in to Muster</h1>
        <p className={classes.sub}>Your jobs, quotas and the GPUs they run on.</p>
        <TextInput
          label="User name"
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          autoFocus
          required
          withAsterisk={false}
          size="md"
          value={username}
          onChange={(event) => setUsername(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          name="password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          size="md"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {refusal === "" ? null : (
          <p className={classes.refusal} role="alert">
            {refusal}
          </p>
        )}
        <Button type="submit" size="md" fullWidth loading={busy} mt={6}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
