"""Applies the mutants of mutants.yaml one at a time, and tells which of them the named tests notice.

    python -m tests.mutants [--list] [--only NAME]… [--jobs N]

1. The tracked files are copied into one folder for each job, so the tree itself is never changed.
2. The named tests run once without a mutant. They must pass, and each name must find a test that is not skipped.
3. For each mutant its text is replaced and its tests run. A mutant is killed when one of them fails.

Exit status 1: a mutant survived, its text is not in its file exactly once, or its tests cannot judge it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import Mutant, load
from tests.mutants.workspace import ROOT, Session, Verdict


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT, catalogue: Path | None = None) -> int:
    """Run the command; returns its exit status."""
    mutants = load(catalogue) if catalogue else load()
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = set(options.only) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}; `--list` shows all names")
    chosen = [mutant for mutant in mutants if not options.only or mutant.name in options.only]
    if options.list:
        for mutant in chosen:
            _say(f"{mutant.name:50} {mutant.property}")
        return 0
    return _run(chosen, root=root, jobs=options.jobs)


def _run(mutants: Sequence[Mutant], *, root: Path, jobs: int) -> int:
    stale = [mutant for mutant in mutants if mutant.count_in(root) != 1]
    for mutant in stale:
        _say(f"STALE     {mutant.name}: its old text is {mutant.count_in(root)} times in {mutant.file}")
    if stale:
        return 1
    with Session(root, mutants, jobs=jobs) as session:
        problems = session.baseline()
        for problem in problems:
            _say(f"BASELINE  {problem}")
        if problems:
            return 1
        verdicts = []
        for verdict in session.verdicts():
            verdicts.append(verdict)
            _say(_line(verdict))
        killed = sum(verdict.killed for verdict in verdicts)
        _say(f"\n{killed} of {len(verdicts)} mutants killed in {session.seconds():.0f} s")
        return 0 if killed == len(verdicts) else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(verdict: Verdict) -> str:
    word = "killed" if verdict.killed else "SURVIVED" if verdict.exit_status == 0 else "BROKEN"
    detail = f"by {verdict.killed_by}" if verdict.killed else verdict.output
    return f"{word:9} {verdict.seconds:5.1f} s  {verdict.mutant.name}  {detail}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Try the tests against mutants.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant; may be repeated")
    parser.add_argument("--jobs", type=_positive, default=2, metavar="N", help="mutants that run at once (default: 2)")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
