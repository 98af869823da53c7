#!/usr/bin/env python
"""Runs Django's commands on the embedded services, or on those that DATABASE_URL and REDIS_URL name."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent
# These read no database; starting one for them would only cost time.
WITHOUT_SERVICES = {"collectstatic", "compilemessages", "help", "makemessages", "spectacular", "startapp", "version"}


def main(argv: list[str]) -> int:
    """Runs one command and returns its exit status."""
    signal.signal(signal.SIGTERM, leave)
    # Appended, never inserted: `platform` is also a module of the standard library, and that one has to win.
    sys.path.append(str(ROOT / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    command = next((word for word in argv[1:] if not word.startswith("-")), "help")
    if command in WITHOUT_SERVICES or {"-h", "--help", "--version"} & set(argv[1:]):
        execute_from_command_line(argv)
        return 0

    from muster.local.places import LocalError  # noqa: PLC0415
    from muster.local.services import services_of_this_process  # noqa: PLC0415

    # Before Django reads its settings: the addresses are part of them.
    try:
        services = services_of_this_process()
    except LocalError as error:
        print(f"manage.py: {error}", file=sys.stderr)  # noqa: T201
        return 1
    with services:
        execute_from_command_line(argv)
    return 0


def leave(number: int, _frame: FrameType | None) -> None:
    """Ends the process as a signal should, but past every `finally`: the services are stopped in one."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
