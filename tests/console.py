"""The console blocks of documents: their commands as a reader would type them, and the lines shown below each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/operator/first-node.md", "docs/user/sweeps.md", "docs/user/first-week.md")
# What documents write in the place of a platform's address and of its agent's digest.
ADDRESS, DIGEST = "https://muster.example.org", "2aa9d5f8…"
_BLOCK = re.compile(r"^(?P<indent> *)```console\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a document; `as_root` where its prompt is `#`. A `…` in `shown` stands for any text."""

    text: str
    as_root: bool
    shown: list[str] = field(default_factory=list)

    def missing(self, output: str) -> list[str]:
        """The lines that the document shows and the output does not have in this order."""
        lines = iter(output.splitlines())
        patterns = (".*".join(map(re.escape, line.strip().split("…"))) for line in self.shown)
        return [pattern for pattern in patterns if not any(re.fullmatch(pattern, line.strip()) for line in lines)]


def commands(page: str) -> list[Command]:
    """The commands of all console blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [command for found in _BLOCK.finditer(text) for command in _commands(found["text"], len(found["indent"]))]


def install_lines(page: str, *, address: str, digest: str) -> str:
    """The lines that a page shows for a new server, with a platform's address and the digest of its agent."""
    shown = [one.text for one in commands(page) if one.text.startswith(("curl -fsSLO", "install -m 755"))]
    return "\n".join(shown).replace(ADDRESS, address).replace(DIGEST, digest)


def replaced(text: str, standing_for: Mapping[str, str]) -> str:
    """The text with each word group of the mapping replaced."""
    for words, others in standing_for.items():
        text = text.replace(words, others)
    return text


def _commands(block: str, indent: int) -> Iterator[Command]:
    command: Command | None = None
    for line in (line[indent:] for line in block.splitlines()):
        if command is not None and _goes_on(command.text):
            command = Command(f"{command.text}\n{line}", command.as_root)
        elif line.startswith(("$ ", "# ")):
            if command is not None:
                yield command
            command = Command(line[2:], line.startswith("# "))
        elif command is not None:
            command.shown.append(line)
    if command is not None:
        yield command


def _goes_on(text: str) -> bool:
    """True if a shell would ask for another line."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return text.rstrip().endswith(("|", "\\"))
