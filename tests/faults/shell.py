"""Code of tests in a process of the platform, which stays for the next piece: to start one takes seconds.

Such a process reads a JSON string with Python code on each line, and answers on a line with what the code printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Shell:
    """The process, once there is code for it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def run(self, code: str) -> str:
        """Run the code, and return what it prints."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the code failed: the process wrote why"
        return str(json.loads(answer))

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()  # it ends with its input


def main() -> None:
    """Run what comes until the input ends."""
    sys.path.append(str(ROOT / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
    import django

    django.setup()
    from django.db import close_old_connections

    for line in sys.stdin:
        close_old_connections()  # Postgres may have been restarted meanwhile
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(json.loads(line), {})
        sys.stdout.write(json.dumps(printed.getvalue()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
