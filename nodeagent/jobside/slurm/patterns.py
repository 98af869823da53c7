"""Names of files with Slurm's patterns, such as `logs/%x-%4j.out`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

NO_INDEX = 4_294_967_294
"""The value of %a in a job that is no member of an array."""
_MAX_DIGITS = 10
_PATTERN = re.compile(r"%(?:(%)|([0-9]*)([AaJjNnstux]))")


@dataclass(frozen=True)
class Facts:
    """The values of the patterns."""

    job_id: str
    name: str
    user: str
    node: str
    array_id: str = ""
    """Empty where the job is no member of an array."""
    array_index: int = NO_INDEX
    step: str = "batch"
    task: int = 0
    node_index: int = 0

    def _value(self, letter: str) -> str:
        values = {
            "A": self.array_id or self.job_id,
            "a": str(self.array_index),
            "J": self.job_id if self.step == "batch" else "{}.{}".format(self.job_id, self.step),
            "j": self.job_id,
            "N": self.node,
            "n": str(self.node_index),
            "s": self.step,
            "t": str(self.task),
            "u": self.user,
            "x": self.name,
        }
        return values[letter]

    def fill(self, pattern: str) -> str:
        """The pattern with its values; one with a backslash is taken as it is, without its backslashes."""
        if "\\" in pattern:
            return pattern.replace("\\", "")

        def value(found: re.Match[str]) -> str:
            if found[1]:
                return "%"
            text = self._value(found[3])
            if found[2] and text.isdigit():
                return text.zfill(min(int(found[2][:4]), _MAX_DIGITS))
            return text

        return _PATTERN.sub(value, pattern)

    def path(self, pattern: str, folder: str) -> str:
        """The absolute path of the file."""
        return os.path.join(folder, self.fill(pattern))


def differs_by_task(pattern: str) -> bool:
    """True if tasks of one step have different files."""
    return "\\" not in pattern and any(found[3] in ("t", "n", "N") for found in _PATTERN.finditer(pattern))
