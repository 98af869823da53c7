import classes from "./Term.module.css";
import { TERMS, type TermName } from "./terms";

/** A small question mark beside a word: what it means in a few words, and a link to the help. */
export function Term({ of }: { of: TermName }) {
  const [address, words] = TERMS[of];
  return (
    <a
      className={classes.term}
      href={address}
      target="_blank"
      rel="noreferrer"
      title={words}
      aria-label={`What is this? ${words}`}
    >
      ?
    </a>
  );
}
