import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { stringify } from "yaml";

import type { Spec } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { cliCommand, curlCommand } from "./commands";
import classes from "./SpecTab.module.css";

const FORMS = [
  { value: "yaml", label: "YAML" },
  { value: "cli", label: "CLI" },
  { value: "curl", label: "curl" },
];

/** What was asked for, and the commands that ask for the same. */
export function SpecTab({ spec }: { spec: Spec }) {
  const [form, setForm] = useState("yaml");
  const yaml = stringify(spec, { lineWidth: 0 });
  const what = spec.sweep === undefined ? "jobs" : "sweeps";
  const text =
    form === "cli"
      ? cliCommand(yaml)
      : form === "curl"
        ? curlCommand(yaml, window.location.origin, what)
        : yaml;
  return (
    <section className={`card ${classes.card}`} aria-label="Spec">
      <div className={classes.bar}>
        <SegmentedControl
          size="xs"
          data={FORMS}
          value={form}
          onChange={setForm}
          aria-label="Form of the spec"
        />
        <CopyButton text={text} label="Copy" />
      </div>
      <pre className={classes.code} tabIndex={0} aria-label="Spec text">
        {text}
      </pre>
    </section>
  );
}

export default SpecTab;
