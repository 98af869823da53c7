/** What is wrong with a YAML text, in words for someone who writes a job spec. */
import type { LineCounter, YAMLError } from "yaml";

const NOT_FINISHED = "is not finished: key: value";

const WORDS: Partial<Record<YAMLError["code"], string>> = {
  MISSING_CHAR: NOT_FINISHED,
  MULTILINE_IMPLICIT_KEY: NOT_FINISHED,
  BAD_INDENT: "is indented differently from the lines that it belongs to",
  TAB_AS_INDENT: "is indented with a tab: use spaces",
  DUPLICATE_KEY: "has a key that stands above already: write each key once",
  BLOCK_AS_IMPLICIT_KEY: "has a second colon: put a value with a colon in quotes",
  BAD_SCALAR_START: "has a value that begins with a special character: put the value in quotes",
  BAD_DQ_ESCAPE: "has a backslash in double quotes that YAML does not know: use single quotes",
  UNEXPECTED_TOKEN: "has something behind the end of a value: key: value",
  MULTIPLE_DOCS: "begins a second document: a spec is one document",
};

/** The parser has one code for several causes; its message tells them apart. */
const BY_MESSAGE: readonly (readonly [string, string])[] = [
  ["quote", "ends before its quote is closed"],
  ["end with a ]", "ends before its [ is closed"],
  ["end with a }", "ends before its { is closed"],
];

/** `Line 6 is not finished: key: value`; what is not closed is told of the line at whose end it was still open. */
export function yamlWords(problem: YAMLError, text: string, lines: LineCounter): string {
  const [from] = problem.pos;
  const [, open] = BY_MESSAGE.find(([part]) => problem.message.includes(part)) ?? [];
  const { line } = lines.linePos(open === undefined ? from : text.slice(0, from).trimEnd().length);
  return `Line ${line} ${open ?? WORDS[problem.code] ?? "cannot be read: key: value"}`;
}
