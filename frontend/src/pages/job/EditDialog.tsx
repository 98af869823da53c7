import { Button, Group, Modal, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";

import { editJob } from "../../api/client";
import { messageOf, Problem } from "../../api/problem";
import type { JobEdit, JobWithSpec } from "../../api/types";
import { useMe } from "../../app/me";
import { toast } from "../../components/toast";
import { humanize } from "../../format/words";
import { readLines, writeLines } from "../submit/fields";

const PRIORITIES = ["low", "normal", "high", "urgent"] as const;

interface Props {
  job: JobWithSpec;
  opened: boolean;
  onClose: () => void;
  onSaved: () => Promise<void>;
}

/** Changes what of a waiting job can be changed: its name, priority, time limit and tags. */
export default function EditDialog({ job, opened, onClose, onSaved }: Props) {
  const me = useMe();
  const manages =
    me.is_operator || me.tenants.some(({ name, role }) => name === job.tenant && role === "manager");
  const asIs = {
    name: job.name,
    priority: job.priority,
    time: job.spec.time ?? "",
    tags: writeLines(job.tags),
  };
  const [values, setValues] = useState(asIs);
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const errorOf = (field: string) =>
    problem instanceof Problem
      ? problem.fields.find((each) => each.field === field || each.field.startsWith(`${field}.`))?.message
      : undefined;
  const known = ["name", "priority", "time", "tags"].some((field) => errorOf(field) !== undefined);

  const save = async () => {
    const changes: JobEdit = {
      ...(values.name !== asIs.name && { name: values.name }),
      ...(values.priority !== asIs.priority && { priority: values.priority }),
      ...(values.time !== asIs.time && { time: values.time === "" ? null : values.time }),
      ...(values.tags !== asIs.tags && { tags: readLines(values.tags) }),
    };
    if (Object.keys(changes).length === 0) {
      onClose();
      return;
    }
    setBusy(true);
    try {
      await editJob(job.id, changes);
      toast("done", `Job #${job.id} is changed`);
      onClose();
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
    await onSaved();
  };

  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={`Edit ${job.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
        style={{ display: "grid", gap: 14 }}
      >
        <TextInput
          label="Name"
          value={values.name}
          error={errorOf("name")}
          onChange={(event) => setValues({ ...values, name: event.currentTarget.value })}
          data-autofocus
        />
        <NativeSelect
          label="Priority"
          description={manages ? undefined : "High and urgent are for managers."}
          data={PRIORITIES.map((value) => ({
            value,
            label: humanize(value),
            disabled: !manages && (value === "high" || value === "urgent") && value !== job.priority,
          }))}
          value={values.priority}
          error={errorOf("priority")}
          onChange={(event) =>
            setValues({
              ...values,
              priority: PRIORITIES.find((each) => each === event.currentTarget.value) ?? "normal",
            })
          }
        />
        <TextInput
          label="Time limit"
          placeholder="none"
          description="Such as 90s, 30m, 24h or 7d"
          value={values.time}
          error={errorOf("time")}
          onChange={(event) => setValues({ ...values, time: event.currentTarget.value })}
        />
        <Textarea
          label="Tags"
          description="One on a line"
          placeholder="project=segmentation"
          autosize
          minRows={2}
          maxRows={10}
          spellCheck={false}
          value={values.tags}
          error={errorOf("tags")}
          onChange={(event) => setValues({ ...values, tags: event.currentTarget.value })}
        />
        {problem === null || known ? null : (
          <p role="alert" style={{ fontSize: 13, color: "var(--failed-text)" }}>
            {messageOf(problem)}
          </p>
        )}
        <Group justify="flex-end" gap={8}>
          <Button variant="default" onClick={onClose}>
            Keep as it is
          </Button>
          <Button type="submit" loading={busy}>
            Save
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
