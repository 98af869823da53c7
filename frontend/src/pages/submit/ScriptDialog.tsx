import { Alert, Button, Group, Modal, Textarea } from "@mantine/core";
import { useState } from "react";

import { translateScript } from "../../api/client";
import { messageOf, Problem } from "../../api/problem";
import type { ScriptOption, Spec, TranslatedScript } from "../../api/types";
import classes from "./ScriptDialog.module.css";

interface Props {
  opened: boolean;
  onClose: () => void;
  onSpec: (spec: Spec) => void;
}

const placeOf = (option: ScriptOption) => (option.line === null ? option.source : `line ${option.line}`);

function refusalOf(error: unknown): string {
  const fields = error instanceof Problem ? error.fields : [];
  return fields.length > 0 ? fields.map(({ message }) => message).join("; ") : messageOf(error);
}

/** Takes a script with #SBATCH directives, reports on each of its options, and hands its spec on. */
export default function ScriptDialog({ opened, onClose, onSpec }: Props) {
  const [script, setScript] = useState("");
  const [found, setFound] = useState<TranslatedScript | null>(null);
  const [refusal, setRefusal] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const change = (text: string) => {
    setScript(text);
    setFound(null);
    setRefusal(null);
  };
  const translate = async () => {
    setBusy(true);
    try {
      setFound(await translateScript(script));
      setRefusal(null);
    } catch (error) {
      setFound(null);
      setRefusal(refusalOf(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Modal
      opened={opened}
      onClose={onClose}
      size="xl"
      title="From an sbatch script"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={classes.parts}>
        <Textarea
          label="Script"
          description="With its #SBATCH lines. Slurm's rules say which of them count."
          autosize
          minRows={8}
          maxRows={16}
          value={script}
          onChange={(event) => change(event.currentTarget.value)}
          classNames={{ input: "mono" }}
          spellCheck={false}
          data-autofocus
        />
        {refusal === null ? null : (
          <Alert color="red" variant="light" role="alert">
            {refusal}
          </Alert>
        )}
        {found === null ? null : <Report found={found} />}
        <Group justify="flex-end" gap={8}>
          {found === null ? (
            <Button loading={busy} disabled={script.trim() === ""} onClick={() => void translate()}>
              Translate
            </Button>
          ) : (
            <Button onClick={() => onSpec(found.spec)}>Use this spec</Button>
          )}
        </Group>
      </div>
    </Modal>
  );
}

function Report({ found }: { found: TranslatedScript }) {
  if (found.report.length === 0) return <p className={classes.none}>It has no #SBATCH lines that count.</p>;
  return (
    <div className={classes.table}>
      <table>
        <caption className="sr-only">What became of each option</caption>
        <thead>
          <tr>
            <th scope="col">Where</th>
            <th scope="col">Option</th>
            <th scope="col">What became of it</th>
          </tr>
        </thead>
        <tbody>
          {found.report.map((option, index) => (
            // Options may be written twice, and never move.
            <tr key={index} data-fate={option.fate}>
              <td>{placeOf(option)}</td>
              <td className="mono">{option.text}</td>
              <td>
                {option.fate === "ignored" ? <b>Ignored: </b> : null}
                {option.says}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
