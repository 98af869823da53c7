"""Code of tests in a process of the platform: `python -m tests.faults.shell` in its environment.

Reads a JSON string with Python code on each line, and answers on a line with what the code printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
django.setup()

from django.db import close_old_connections  # noqa: E402


def main() -> None:
    """Run what comes until the input ends."""
    for line in sys.stdin:
        close_old_connections()  # Postgres may have been restarted meanwhile
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(json.loads(line), {})
        sys.stdout.write(json.dumps(printed.getvalue()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
