"""`python -m bench.published.accuracy FILE`: compare the classifier with labels, and list disagreements.

FILE has a JSON object a line: `id`, `log`, `label`, `category` and `retry`.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.diagnosis.failures.classify import classify
from scheduler.diagnosis.failures.evidence import Category, Retry, Tail, Verdict


@dataclass(frozen=True, slots=True)
class Labelled:
    """A log whose class is known."""

    id: str
    log: str
    label: str
    category: Category
    retry: Retry


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares between 0 and 1, and the pairs (label, answer) that differ."""

    logs: int
    classes: float
    reactions: float
    lost: float
    """The share of the infrastructure failures worth a retry that the classifier answers with `no`."""
    confusions: Counter[tuple[str, str]]
    wrong: tuple[tuple[Labelled, Verdict], ...]

    @property
    def wrong_classes(self) -> Counter[tuple[str, str]]:
        """The number of times that the classifier mistakes one class for another, by pair."""
        return Counter({pair: count for pair, count in self.confusions.items() if pair[0] != pair[1]})


def read(lines: Iterable[str]) -> list[Labelled]:
    """The labelled logs of a file."""
    found = []
    for line in lines:
        row = json.loads(line)
        found.append(Labelled(row["id"], row["log"], row["label"], Category(row["category"]), Retry(row["retry"])))
    return found


def measure(logs: Sequence[Labelled], said: Callable[[str], bytes] = str.encode) -> Accuracy:
    """The shares of logs whose class and reaction match the label; `said` transforms each log first."""
    answers = [(log, classify([Tail(said(log.log))])) for log in logs]
    wrong = tuple((log, answer) for log, answer in answers if (log.label, log.retry) != (answer.failure, answer.retry))
    mendable = [
        answer for log, answer in answers if log.category is Category.INFRASTRUCTURE and log.retry is not Retry.NO
    ]
    return Accuracy(
        logs=len(logs),
        classes=sum(log.label == answer.failure for log, answer in answers) / max(1, len(logs)),
        reactions=sum(log.retry == answer.retry for log, answer in answers) / max(1, len(logs)),
        lost=sum(answer.retry is Retry.NO for answer in mendable) / max(1, len(mendable)),
        confusions=Counter((log.label, answer.failure) for log, answer in wrong),
        wrong=wrong,
    )


def main(argv: Sequence[str]) -> int:
    """Print the figures, and with `--wrong` each log whose answer differs from its label."""
    parser = ArgumentParser(prog="python -m bench.published.accuracy", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--wrong", action="store_true", help="list what is answered wrongly, with the line that misled")
    options = parser.parse_args(argv)
    with options.file.open(encoding="utf-8") as lines:
        found = measure(read(lines))
    say = sys.stdout.write
    say(f"{found.logs} logs: class {found.classes:.1%}, reaction {found.reactions:.1%}, ")
    say(f"infrastructure answered with no {found.lost:.1%}\n")
    for (label, name), count in sorted(found.confusions.items()):
        say(f"{count:4} {label} taken for {name}\n")
    if options.wrong:
        for log, answer in found.wrong:
            say(f"{log.id} {log.label} taken for {answer.failure} by {answer.rule!r}: {answer.line[:160]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
