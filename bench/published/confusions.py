"""The part of docs/design/measurements/jobs.md about verdicts on labelled logs, plain and with noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.noise import NOISE
from bench.published.accuracy import Accuracy, Labelled, measure, read
from scheduler.diagnosis.failures import builtin

LOGS = Path("failure_logs") / "train.jsonl"
BEGIN, END = "<!-- confusions -->\n", "<!-- /confusions -->"


@cache
def labelled(folder: Path) -> Sequence[Labelled]:
    """The labelled logs."""
    with (folder / LOGS).open(encoding="utf-8") as lines:
        return read(lines)


@cache
def accuracy(folder: Path, form: str | None) -> Accuracy:
    """The accuracy on the logs in one form of noise, or as they are."""
    if form is None:
        return measure(labelled(folder))
    return measure(labelled(folder), lambda log: NOISE[form](log + "\n"))


def page(folder: Path, text: str) -> str:
    """The page with its part made anew."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    part = tables(labelled(folder), accuracy(folder, None), {form: accuracy(folder, form) for form in NOISE})
    return text[:begin] + part + text[end:]


def tables(logs: Sequence[Labelled], plain: Accuracy, noisy: Mapping[str, Accuracy]) -> str:
    """Tables of the answers to logs of each class, and of the right answers by form of noise."""
    count = Counter(log.label for log in logs)
    around = _taken(one.wrong_classes for one in noisy.values())
    alone = _taken([plain.wrong_classes])
    lines = [
        f"{len(logs)} logs of {len(count)} of the {len(builtin().classes)} classes,"
        f" as they are and in {len(noisy)} forms of noise each.",
        "",
        "| class | logs | taken for another class | with noise | taken for another class |",
        "|---|---|---|---|---|",
    ]
    rows = [(name, count[name], alone.get(name, Counter()), around.get(name, Counter())) for name in sorted(count)]
    lines += [
        f"| {name} | {size} | {_others(others)} | {size * len(noisy)} | {_others(in_noise)} |"
        for name, size, others, in_noise in rows
    ]
    lines += ["", "| noise | class | reaction | infrastructure answered with `no` |", "|---|---|---|---|"]
    lines += [f"| {form} | {_figures(found)} |" for form, found in [("none", plain), *noisy.items()]]
    return "\n".join(lines) + "\n"


def _taken(found: Iterable[Mapping[tuple[str, str], int]]) -> dict[str, Counter[str]]:
    taken: dict[str, Counter[str]] = {}
    for pairs in found:
        for (label, answer), many in pairs.items():
            taken.setdefault(label, Counter())[answer] += many
    return taken


def _others(others: Counter[str]) -> str:
    return ", ".join(f"{many} for {name}" for name, many in sorted(others.items())) or "0"


def _figures(found: Accuracy) -> str:
    return f"{found.classes:.1%} | {found.reactions:.1%} | {found.lost:.1%}".replace("%", " %")
