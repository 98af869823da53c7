/** A job spec as YAML text: the one truth that both the form and the editor show and change. */
import { Document, isCollection, isMap, isNode, isScalar, LineCounter, parseDocument, type Pair } from "yaml";

import type { Spec } from "../../api/types";
import { yamlWords } from "./yamlWords";

export interface TextError {
  message: string;
  from: number;
  to: number;
}

export type Parsed = { spec: Spec; error: null } | { spec: null; error: TextError };

/** The order in which keys stand when a page writes them; the server has the same. */
export const ORDER = [
  "name",
  "command",
  "gpus",
  "nodes",
  "nodes_in",
  "exclude_nodes",
  "node_labels",
  "cpus",
  "memory",
  "shm",
  "image",
  "code",
  "workdir",
  "outputs",
  "env",
  "params",
  "sweep",
  "array",
  "mounts",
  "time",
  "expected",
  "deadline",
  "after",
  "begin",
  "hold",
  "vc",
  "priority",
  "class",
  "retry",
  "locality",
  "preemptible",
  "checkpoint",
  "elastic",
  "throughput",
  "share",
  "gpu_memory",
  "on_disconnect",
  "tags",
  "notify",
  "stop_on",
  "idle",
  "keep_failed",
  "slurm_env",
  "batch",
  "screening",
];

export function parseSpec(text: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [problem] = document.errors;
  if (problem !== undefined) {
    const [from, to] = problem.pos;
    return {
      spec: null,
      error: { message: yamlWords(problem, text, lines), from, to: Math.max(to, from + 1) },
    };
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch {
    const message = "An alias (*name) stands for nothing: write its value out, or put it in quotes";
    return { spec: null, error: { message, from: 0, to: text.length } };
  }
  if (value === null) return { spec: {}, error: null };
  if (typeof value !== "object" || Array.isArray(value)) {
    const message = "A spec is a list of keys and values, such as gpus: 4";
    return { spec: null, error: { message, from: 0, to: text.length } };
  }
  return { spec: value as Spec, error: null };
}

function keyOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
}

function placeOf(key: string): number {
  const index = ORDER.indexOf(key);
  return index < 0 ? ORDER.length : index;
}

/** Puts a key that was added at the end where a reader looks for it. */
function settle(document: Document, key: string): void {
  const map = document.contents;
  if (!isMap(map)) return;
  const from = map.items.findIndex((pair) => keyOf(pair) === key);
  const before = map.items.findIndex((pair, index) => index !== from && placeOf(keyOf(pair)) > placeOf(key));
  if (from < 0 || before < 0 || before > from) return;
  const [moved] = map.items.splice(from, 1);
  if (moved !== undefined) map.items.splice(before, 0, moved);
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0);

/**
 * The text with one field changed; comments and everything else stay as they were typed.
 *
 * 1. An empty value takes the key away, and its parent with it when nothing is left there.
 * 2. A new key goes to its usual place, not to the end.
 * 3. Text of several lines is written as a block, so that a command reads as it runs.
 */
export function setField(text: string, path: readonly string[], value: unknown): string {
  const document: Document = parseDocument(text);
  const [root] = path;
  if (document.errors.length > 0 || root === undefined) return text;
  if (!isMap(document.contents)) document.contents = document.createNode({});
  if (isEmpty(value)) {
    if (!document.hasIn(path)) return text;
    document.deleteIn(path);
    const parent = path.slice(0, -1);
    if (
      parent.length > 0 &&
      isEmpty((document.getIn(parent) as { toJSON?: () => unknown } | undefined)?.toJSON?.())
    ) {
      document.deleteIn(parent);
    }
  } else {
    const added = !document.has(root);
    if (typeof value === "object") document.setIn(path, document.createNode(value));
    else document.setIn(path, value);
    const node: unknown = document.getIn(path, true);
    if (isScalar(node))
      node.type = typeof value === "string" && value.includes("\n") ? "BLOCK_LITERAL" : "PLAIN";
    if (added) settle(document, root);
    if (root === "sweep") foldSweep(document);
  }
  return isEmpty(document.toJS()) && document.comment === null && document.commentBefore === null
    ? ""
    : document.toString({ lineWidth: 0 });
}

/** Where in the text a field stands that the server names, e.g. `checkpoint.grace`; its parent when it is not written. */
export function rangeOf(text: string, field: string): { from: number; to: number } | null {
  const document = parseDocument(text);
  let map: unknown = document.contents;
  let found: { from: number; to: number } | null = null;
  for (const name of field.split(".")) {
    if (!isMap(map)) break;
    const pair = map.items.find((each) => keyOf(each) === name);
    if (pair === undefined) break;
    const start = isNode(pair.key) ? pair.key.range?.[0] : undefined;
    const end = isNode(pair.value) ? pair.value.range?.[1] : undefined;
    if (start !== undefined) found = { from: start, to: Math.max(start + name.length, end ?? 0) };
    map = pair.value;
  }
  return found;
}

function equal(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null)
    return one === other;
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].every((key) => equal((one as Spec)[key], (other as Spec)[key]));
}

/** The keys in which a spec differs from another, null for those that it has not; of `sweep` and `array` only what differs in them. */
export function changesOf(from: Spec, to: Spec): Spec {
  const differ = [...new Set([...Object.keys(from), ...Object.keys(to)])].filter(
    (key) => !equal(from[key], to[key]),
  );
  return Object.fromEntries(
    differ.map((key) => {
      const [one, other] = [from[key], to[key]];
      return (key === "sweep" || key === "array") && isMapping(one) && isMapping(other)
        ? [key, changesOf(one, other)]
        : [key, other ?? null];
    }),
  );
}

const isMapping = (value: unknown): value is Spec =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A stored spec without the schema's defaults: the fields that its user wrote. */
export function withoutDefaults(spec: Spec, schema: Spec): Spec {
  const properties = (schema.properties ?? {}) as Record<string, { default?: unknown } | undefined>;
  return Object.fromEntries(
    Object.entries(spec).filter(([key, value]) => {
      const fallback = properties[key]?.default;
      return !isEmpty(value) && (fallback === undefined || !equal(value, fallback));
    }),
  );
}

export function specToText(spec: Spec): string {
  const ordered = Object.entries(spec).sort(([one], [other]) => placeOf(one) - placeOf(other));
  const document: Document = new Document(Object.fromEntries(ordered));
  foldSweep(document);
  return document.toString({ lineWidth: 0 });
}

/** Puts each parameter of a sweep, and its rungs, on one line: `lr: { log: [ 0.0001, 0.1 ] }`. */
function foldSweep(document: Document): void {
  const params: unknown = document.getIn(["sweep", "params"]);
  const nodes: unknown[] = isMap(params) ? params.items.map(({ value }) => value) : [];
  for (const node of [...nodes, document.getIn(["sweep", "rungs"])]) {
    if (isCollection(node)) node.flow = true;
  }
}
