import { Button, Modal } from "@mantine/core";
import { useState, type ReactNode, type SubmitEvent } from "react";

import { messageOf } from "../../api/problem";
import { CopyButton } from "../../components/CopyButton";
import classes from "./SettingsPage.module.css";

interface Props {
  opened: boolean;
  onClose: () => void;
  /** What the dialog is called while it asks, and once there is a secret. */
  title: string;
  madeTitle: string;
  /** The word for the secret, such as "Token". */
  word: string;
  /** What the secret is for, before it is said that it is not shown again. */
  note?: string;
  yes: string;
  ready: boolean;
  /** Makes it, and answers its secret. */
  make: () => Promise<string>;
  /** The fields; they are told why the server refused. */
  children: (refusal: string | undefined) => ReactNode;
}

/** Asks for what is needed to make something, and shows the secret of what was made: this once, and until it is closed. */
export default function SecretDialog({
  opened,
  onClose,
  title,
  madeTitle,
  word,
  note = "",
  yes,
  ready,
  make,
  children,
}: Props) {
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string>();
  const [secret, setSecret] = useState<string | null>(null);

  const close = () => {
    onClose();
    setRefusal(undefined);
    setSecret(null);
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setRefusal(undefined);
    try {
      setSecret(await make());
    } catch (error) {
      setRefusal(messageOf(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Modal
      opened={opened}
      onClose={close}
      title={secret === null ? title : madeTitle}
      closeOnClickOutside={secret === null}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {secret === null ? (
        <form className={classes.form} onSubmit={(event) => void submit(event)}>
          {children(refusal)}
          <div className={classes.buttons}>
            <Button variant="default" onClick={close}>
              Back
            </Button>
            <Button type="submit" loading={busy} disabled={!ready}>
              {yes}
            </Button>
          </div>
        </form>
      ) : (
        <div className={classes.form}>
          <p className={classes.note}>{note}Copy it now: it is not shown again.</p>
          <div className={classes.secret}>
            <code aria-label={word}>{secret}</code>
            <CopyButton text={secret} label={`Copy ${word.toLowerCase()}`} />
          </div>
          <div className={classes.buttons}>
            <Button onClick={close}>Done</Button>
          </div>
        </div>
      )}
    </Modal>
  );
}
