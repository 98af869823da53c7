import { messageOf, Problem } from "../../api/problem";

/** Why the server refused, by the field that it named; what names none is told at the given field. */
export function refusalsOf(error: unknown, otherwise: string): Record<string, string> {
  const fields = error instanceof Problem ? error.fields : [];
  if (fields.length === 0) return { [otherwise]: messageOf(error) };
  return Object.fromEntries(fields.map(({ field, message }) => [field, message]));
}
