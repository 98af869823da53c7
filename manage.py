#!/usr/bin/env python
"""Runs Django's commands on the embedded services, or on those that DATABASE_URL and REDIS_URL name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# These read no database; starting one for them would only cost time.
WITHOUT_SERVICES = {"collectstatic", "compilemessages", "help", "makemessages", "spectacular", "startapp", "version"}


def main(argv: list[str]) -> int:
    """Runs one command and returns its exit status."""
    # Appended, never inserted: `platform` is also a module of the standard library, and that one has to win.
    sys.path.append(str(ROOT / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    command = next((word for word in argv[1:] if not word.startswith("-")), "help")
    if command in WITHOUT_SERVICES or {"-h", "--help", "--version"} & set(argv[1:]):
        execute_from_command_line(argv)
        return 0

    from muster.local.places import LocalError  # noqa: PLC0415
    from muster.local.services import default_home, start_services  # noqa: PLC0415

    # Before Django reads its settings: the addresses are part of them.
    try:
        services = start_services(default_home())
    except LocalError as error:
        print(f"manage.py: {error}", file=sys.stderr)  # noqa: T201
        return 1
    with services:
        os.environ.update(services.environment())
        execute_from_command_line(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
