"""The mutants as data: what each one changes, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

CATALOGUE = Path(__file__).with_name("mutants.yaml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small fault."""

    name: str
    property: str
    """The property that this fault breaks."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """The node ids of the tests that must notice it."""

    def count_in(self, root: Path) -> int:
        """The number of times that the old text is in the file; it has to be there once."""
        file = root / self.file
        return file.read_text().count(self.old) if file.is_file() else 0

    def applied_to(self, text: str) -> str:
        """The text of the file with the fault."""
        return text.replace(self.old, self.new)


def load(catalogue: Path = CATALOGUE) -> list[Mutant]:
    """All mutants of the file."""
    rows = yaml.safe_load(catalogue.read_text())
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]
