import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useQuery } from "@tanstack/react-query";

import { specSchemaQuery } from "../../api/queries";
import type { Spec } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { specToText, withoutDefaults } from "../submit/specText";
import { cliCommand, curlCommand } from "./commands";
import classes from "./SpecTab.module.css";

const FORMS = [
  { value: "yaml", label: "YAML" },
  { value: "cli", label: "CLI" },
  { value: "curl", label: "curl" },
];

/** What was asked for, without what is a default anyway, and the commands that ask for the same. */
export function SpecTab({ spec }: { spec: Spec }) {
  const [form, setForm] = useState("yaml");
  const schema = useQuery(specSchemaQuery);
  const yaml = specToText(withoutDefaults(spec, schema.data ?? {}));
  const what = spec.sweep !== undefined ? "sweeps" : spec.array !== undefined ? "arrays" : "jobs";
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
