import { Button, Skeleton } from "@mantine/core";
import { IconSend } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useRef, useState } from "react";

import { cloneArray, cloneSweep, submitArray, submitJob, submitSweep } from "../../api/client";
import { randomId } from "../../api/http";
import { loadPart } from "../../api/parts";
import { messageOf, Problem, type FieldError } from "../../api/problem";
import { arrayQuery, jobQuery, sweepQuery } from "../../api/queries";
import type { Spec } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { toast } from "../../components/toast";
import { plural } from "../../format/amount";
import { useCode } from "./code/useCode";
import { couldRun, DryRunCard } from "./DryRunCard";
import type { Mark } from "./SpecEditor";
import { EXAMPLE_COMMAND, textOf } from "./fields";
import { SpecForm } from "./SpecForm";
import { changesOf, parseSpec, rangeOf, setField } from "./specText";
import classes from "./SubmitPage.module.css";
import { useDryRun } from "./useDryRun";

const SpecEditor = lazy(() => loadPart(() => import("./SpecEditor")));

/** Whether the command is still missing, or the example that the page begins with. */
function isUnwritten(text: string): boolean {
  const command = textOf(parseSpec(text).spec?.command);
  return command.trim() === "" || command === EXAMPLE_COMMAND;
}

const NONE: readonly FieldError[] = [];
/**
 * Shown at once and read again: a quick job may have ended before the answer to its submission came, and what the
 * stream said of it meanwhile was about a job that no page had loaded.
 */
const AS_SUBMITTED = { updatedAt: 0 };

interface Props {
  initial: string;
  /** The sweep whose spec the text begins with. */
  cloneOfSweep?: number | undefined;
  /** The array whose spec the text begins with. */
  cloneOfArray?: number | undefined;
  schema: Spec | undefined;
  side: "both" | "form" | "yaml";
}

/** Form, YAML and dry run over one text. */
export function Workbench({ initial, cloneOfSweep, cloneOfArray, schema, side }: Props) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const [text, setText] = useState(initial);
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState<{ text: string; fields: readonly FieldError[] } | null>(null);
  // One key for one spec: a second click, or a retry after a lost answer, cannot make a second job.
  const key = useRef({ spec: "", value: "" });

  const code = useCode((sha256, command) =>
    setText((old) => {
      const changed = setField(old, ["code"], { upload: sha256 });
      return command !== null && isUnwritten(old) ? setField(changed, ["command"], command) : changed;
    }),
  );

  const parsed = useMemo(() => parseSpec(text), [text]);
  // While the YAML cannot be read the form keeps showing what it last said, instead of flashing empty.
  const [readable, setReadable] = useState(parsed.spec ?? {});
  if (parsed.spec !== null && parsed.spec !== readable) setReadable(parsed.spec);
  const kind =
    parsed.spec?.array !== undefined ? "array" : parsed.spec?.sweep !== undefined ? "sweep" : "job";
  const check = useDryRun(parsed.spec);
  const fields = refused?.text === text ? refused.fields : parsed.error === null ? check.fields : NONE;
  const errors = parsed.error === null ? fields : [{ field: "", message: parsed.error.message }];

  const marks = useMemo<Mark[]>(() => {
    if (parsed.error !== null) return [parsed.error];
    return fields.map((field) => ({
      ...(rangeOf(text, field.field) ?? { from: 0, to: 0 }),
      message: field.message,
    }));
  }, [parsed, fields, text]);

  const errorOf = (field: string): string | undefined =>
    fields.find(
      (each) =>
        each.field === field ||
        (!["retry", "checkpoint", "elastic", "sweep", "array"].includes(field) &&
          each.field.startsWith(`${field}.`)),
    )?.message;

  const submit = async () => {
    if (parsed.spec === null) return;
    const spec = JSON.stringify(parsed.spec);
    if (key.current.spec !== spec) key.current = { spec, value: randomId() };
    setSending(true);
    try {
      void client.invalidateQueries({ queryKey: ["jobs"] });
      if (kind === "array") {
        const array =
          cloneOfArray === undefined
            ? await submitArray(parsed.spec, key.current.value)
            : await cloneArray(cloneOfArray, changesOf(parseSpec(initial).spec ?? {}, parsed.spec));
        client.setQueryData(arrayQuery(array.id).queryKey, array, AS_SUBMITTED);
        toast("done", `Array #${array.id} is submitted with ${plural(array.members.total, "member")}`);
        await navigate({ to: "/arrays/$arrayId", params: { arrayId: String(array.id) } });
      } else if (kind === "sweep") {
        const sweep =
          cloneOfSweep === undefined
            ? await submitSweep(parsed.spec, key.current.value)
            : await cloneSweep(cloneOfSweep, changesOf(parseSpec(initial).spec ?? {}, parsed.spec));
        client.setQueryData(sweepQuery(sweep.id).queryKey, sweep, AS_SUBMITTED);
        toast("done", `Sweep #${sweep.id} is submitted with ${plural(sweep.members.total, "member")}`);
        await navigate({ to: "/sweeps/$sweepId", params: { sweepId: String(sweep.id) } });
      } else {
        const job = await submitJob(parsed.spec, key.current.value);
        client.setQueryData(jobQuery(job.id).queryKey, job, AS_SUBMITTED);
        toast("done", `Job #${job.id} is submitted`);
        await navigate({ to: "/jobs/$jobId", params: { jobId: String(job.id) } });
      }
    } catch (error) {
      if (error instanceof Problem && error.fields.length > 0) setRefused({ text, fields: error.fields });
      else toast("failed", messageOf(error));
    } finally {
      setSending(false);
    }
  };

  return (
    <div className={classes.columns}>
      {side === "yaml" ? null : (
        <SpecForm
          spec={readable}
          code={code}
          result={check.result}
          unreadable={parsed.error?.message ?? null}
          errorOf={errorOf}
          onChange={(path, value) => setText((old) => setField(old, path, value))}
        />
      )}
      <div className={classes.right}>
        {side === "form" ? null : (
          <section className={`card ${classes.editor}`} aria-label="YAML">
            <header className={classes.editorHead}>
              <span className="mono">job.yaml</span>
              <CopyButton text={text} label="Copy the YAML" />
            </header>
            <Suspense fallback={<Skeleton height="100%" radius={12} />}>
              <SpecEditor value={text} marks={marks} schema={schema} onChange={setText} />
            </Suspense>
          </section>
        )}
        <DryRunCard
          result={check.result}
          errors={errors}
          failure={check.failure}
          busy={check.busy}
          ofMember={kind !== "job"}
        >
          <Button
            size="md"
            fullWidth
            leftSection={<IconSend size={16} />}
            loading={sending}
            disabled={errors.length > 0 || code.busy !== null}
            onClick={() => void submit()}
          >
            {code.busy !== null
              ? "Waiting for the code"
              : !couldRun(check.result)
                ? "Submit anyway"
                : `Submit ${kind}`}
          </Button>
        </DryRunCard>
      </div>
    </div>
  );
}
