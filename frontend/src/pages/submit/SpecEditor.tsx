import { autocompletion } from "@codemirror/autocomplete";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState, Transaction } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { minimalSetup } from "codemirror";
import { useEffect, useRef } from "react";

import type { Spec } from "../../api/types";
import { completionFor } from "./completion";
import classes from "./SpecEditor.module.css";

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent-text)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--succeeded-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--queued-text)" },
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: "var(--text-3)" },
]);

export interface Mark {
  from: number;
  to: number;
  message: string;
}

interface Props {
  value: string;
  marks: readonly Mark[];
  schema: Spec | undefined;
  onChange: (text: string) => void;
}

/** The YAML of a spec, with completion and with what is wrong marked where it stands. */
export default function SpecEditor({ value, marks, schema, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ onChange, schema, value });

  useEffect(() => {
    latest.current = { onChange, schema, value };
  });

  useEffect(() => {
    if (host.current === null) return undefined;
    const editor = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          minimalSetup,
          yaml(),
          syntaxHighlighting(colours),
          lintGutter(),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Job spec in YAML", tabindex: "0" }),
          autocompletion({ override: [completionFor(() => latest.current.schema)], icons: false }),
          EditorView.updateListener.of((update) => {
            // What the form wrote is known to the form already.
            const typed = update.transactions.some(
              (each) => each.annotation(Transaction.userEvent) !== undefined,
            );
            if (update.docChanged && typed) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    const length = editor.state.doc.length;
    const diagnostics: Diagnostic[] = marks.map((mark) => ({
      from: Math.min(mark.from, length),
      to: Math.min(mark.to, length),
      message: mark.message,
      severity: "error",
    }));
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [marks, value]);

  return <div ref={host} className={classes.editor} />;
}
