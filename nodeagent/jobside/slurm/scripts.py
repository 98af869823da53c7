"""The words of a call of sbatch: which are options, which is the script, and which are its arguments.

The command line has this module as `muster_client/local/scripts.py`, which is a link in the source tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The options that take no value, or take one only behind `=`; all others take the next word.
FLAGS = frozenset(
    {
        "contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "nice", "no-kill", "no-requeue", "overcommit",
        "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "spread-job", "test-only",
        "use-min-nodes", "verbose", "wait",
    }
)  # fmt: skip
SHORT_FLAGS = frozenset("HOQWksv")
_PREFIX = "SBATCH_"


class Words(NamedTuple):
    """The typed words: options, and the path of the script (None: standard input) with its arguments."""

    options: tuple[str, ...]
    script: str | None
    arguments: tuple[str, ...]

    def has(self, name: str, short: str = "") -> bool:
        """Return whether a flag is among the options, by its name or its letter."""
        return any(word == f"--{name}" or (short and word == f"-{short}") for word in self.options)

    @property
    def wraps(self) -> bool:
        """Return whether the options bring a command in the place of a script."""
        return any(word.partition("=")[0] == "--wrap" for word in self.options)


def split(words: Sequence[str]) -> Words:
    """Return the words by their part; options end at the first word that is none."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
        at += 2 if _takes_next(words[at]) else 1
    options = tuple(words[:at])
    rest = list(words[at:])
    if rest and rest[0] == "--":
        rest.pop(0)
    wrapped = Words(options, None, ()).wraps
    return Words(options, rest[0] if rest and not wrapped else None, tuple(rest if wrapped else rest[1:]))


def _takes_next(word: str) -> bool:
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        return not equals and not any(flag.startswith(name) for flag in FLAGS if flag == name or len(name) > 3)
    for place, letter in enumerate(word[1:], start=1):
        if letter not in SHORT_FLAGS:
            return place == len(word) - 1
    return False


def exit_code_of(state: str, code: int | None, reason: str | None, started_at: str | None) -> int:
    """Return what `sbatch --wait` ends with: 1 for a job that did not end by itself, 0 for one that never started."""
    if state == "succeeded" or (state == "cancelled" and started_at is None):
        return 0
    by_itself = reason in ("exit_nonzero", "command_not_found")
    return code if by_itself and code else 1


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that set options."""
    return {name: value for name, value in environment.items() if name.startswith(_PREFIX)}
