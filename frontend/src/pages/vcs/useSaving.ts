import { useState } from "react";

import { messageOf, Problem } from "../../api/problem";
import { toast } from "../../components/toast";

const CONFLICT = 409;

/** The refusal because another person saved meanwhile, if that is what this is. */
export const conflictOf = (error: unknown): Problem | null =>
  error instanceof Problem && error.status === CONFLICT ? error : null;

export interface Saving {
  saving: boolean;
  /** What another person saved meanwhile, until the form is loaded again. */
  conflict: Problem | null;
  save: () => void;
  forget: () => void;
}

/** Stores a form: `onSaved` gets what is stored then, `done` is told, and refusals are kept or told. */
export function useSaving<T>(
  store: () => Promise<T>,
  onSaved: (stored: T) => Promise<void>,
  done: string,
): Saving {
  const [saving, setSaving] = useState(false);
  const [conflict, setConflict] = useState<Problem | null>(null);
  const save = async () => {
    setSaving(true);
    try {
      await onSaved(await store());
      setConflict(null);
      toast("done", done);
    } catch (error) {
      setConflict(conflictOf(error));
      if (conflictOf(error) === null) toast("failed", messageOf(error));
    }
    setSaving(false);
  };
  return { saving, conflict, save: () => void save(), forget: () => setConflict(null) };
}
