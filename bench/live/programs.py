"""The bench's own programs, which work beside the platform in processes of theirs and are talked to line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.live.stack import StackError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs; each line either way is one JSON object."""

    module: str
    _process: subprocess.Popen[str]

    def tell(self, message: DataclassInstance) -> None:
        """Write it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(message)) + "\n")
        self._process.stdin.flush()

    def next(self, *keys: str) -> dict[str, Any]:
        """Its next line, which must have these keys."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        heard: dict[str, Any] = json.loads(line) if line else {}
        if not heard.keys() >= set(keys):
            raise StackError(f"{self.module} did not tell {' and '.join(keys)}, but {heard or 'nothing'}")
        return heard


@contextmanager
def running(module: str, orders: DataclassInstance) -> Iterator[Program]:
    """A program that has been told what to do; it is gone when the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", module], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        program = Program(module, process)
        try:
            program.tell(orders)
            yield program
        finally:
            process.kill()
