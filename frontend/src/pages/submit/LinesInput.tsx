import { Textarea } from "@mantine/core";
import { useState } from "react";

import { readLines, readList, writeLines } from "./fields";
import classes from "./SpecForm.module.css";

interface Props<Value> {
  label: string;
  description?: string;
  placeholder: string;
  value: Value;
  disabled: boolean;
  error: string | undefined;
  onChange: (value: Value) => void;
}

interface Form<Value> {
  read: (text: string) => Value;
  write: (value: Value) => string;
}

/** A value as lines of text. What is being typed stays as it is; a change from elsewhere replaces it. */
function Lines<Value>({ value, onChange, read, write, ...shown }: Props<Value> & Form<Value>) {
  const written = write(value);
  const [draft, setDraft] = useState(written);
  return (
    <Textarea
      {...shown}
      autosize
      minRows={2}
      maxRows={10}
      classNames={{ input: classes.code }}
      spellCheck={false}
      value={write(read(draft)) === written ? draft : written}
      onChange={(event) => {
        setDraft(event.currentTarget.value);
        onChange(read(event.currentTarget.value));
      }}
    />
  );
}

/** Pairs, one a line: `EPOCHS=90`. */
export const PairsInput = (props: Props<Record<string, string>>) => (
  <Lines {...props} read={readLines} write={writeLines} />
);

/** A list, one entry a line. */
export const ListInput = (props: Props<string[]>) => (
  <Lines {...props} read={readList} write={(list) => list.join("\n")} />
);
