/** Completion of a spec from its JSON Schema: keys where a key can stand, values where the schema lists them. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";

import type { Spec } from "../../api/types";

interface SchemaNode {
  $ref?: string;
  anyOf?: SchemaNode[];
  oneOf?: SchemaNode[];
  allOf?: SchemaNode[];
  properties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  enum?: unknown[];
  const?: unknown;
  description?: string;
  type?: string;
}

/** The node with references followed and the alternatives of `anyOf` and `oneOf` put together. */
function resolve(node: SchemaNode, root: Spec): SchemaNode {
  if (node.$ref !== undefined) {
    const name = node.$ref.split("/").at(-1) ?? "";
    const found = (root.$defs as Record<string, SchemaNode> | undefined)?.[name];
    return found === undefined ? node : { ...resolve(found, root), description: node.description };
  }
  const parts = node.anyOf ?? node.oneOf ?? node.allOf;
  if (parts === undefined) return node;
  return parts.map((part) => resolve(part, root)).reduce((all, part) => ({ ...part, ...all }), { ...node });
}

/** The schema of what stands under the given keys. */
export function schemaAt(root: Spec, path: readonly string[]): SchemaNode | null {
  let node: SchemaNode | undefined = resolve(root, root);
  for (const key of path) {
    const child: SchemaNode | undefined = node.properties?.[key];
    if (child === undefined) return null;
    node = resolve(child, root);
  }
  return node;
}

const KEY = /^(\s*)([A-Za-z_]*)$/;
const VALUE = /^(\s*)([A-Za-z_]+):\s+(\S*)$/;

/** The keys that the line with this indentation stands under. */
export function pathAbove(lines: readonly string[], indent: number): string[] {
  const path: string[] = [];
  let inner = indent;
  for (let index = lines.length - 1; index >= 0 && inner > 0; index -= 1) {
    const match = /^(\s*)([A-Za-z_]+):/.exec(lines[index] ?? "");
    const depth = match?.[1]?.length ?? inner;
    if (match?.[2] !== undefined && depth < inner) {
      path.unshift(match[2]);
      inner = depth;
    }
  }
  return path;
}

export interface Suggestion {
  /** How much of what was typed the suggestions replace. */
  typed: string;
  options: Completion[];
}

export function suggest(root: Spec, above: readonly string[], line: string): Suggestion | null {
  const key = KEY.exec(line);
  if (key !== null) {
    const properties = schemaAt(root, pathAbove(above, key[1]?.length ?? 0))?.properties ?? {};
    const options = Object.entries(properties).map(([name, node]) => {
      const { description } = node.description === undefined ? resolve(node, root) : node;
      return {
        label: name,
        apply: `${name}: `,
        type: "property",
        ...(description !== undefined && { detail: description }),
      };
    });
    return { typed: key[2] ?? "", options };
  }
  const value = VALUE.exec(line);
  if (value?.[2] === undefined) return null;
  const node = schemaAt(root, [...pathAbove(above, value[1]?.length ?? 0), value[2]]);
  const values =
    node?.enum ??
    (node?.const === undefined ? (node?.type === "boolean" ? [true, false] : []) : [node.const]);
  return { typed: value[3] ?? "", options: values.map((each) => ({ label: String(each), type: "enum" })) };
}

export function completionFor(schema: () => Spec | undefined) {
  return (context: CompletionContext): CompletionResult | null => {
    const root = schema();
    if (root === undefined) return null;
    const line = context.state.doc.lineAt(context.pos);
    const above = context.state.doc.sliceString(0, line.from).split("\n");
    const found = suggest(root, above, line.text.slice(0, context.pos - line.from));
    if (found === null || found.options.length === 0) return null;
    if (found.typed === "" && !context.explicit) return null;
    return { from: context.pos - found.typed.length, options: found.options, validFor: /^\w*$/ };
  };
}
