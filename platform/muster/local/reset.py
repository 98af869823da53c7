"""`python -m muster.local.reset`: remove the state of an installation on this machine, wherever it lies."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from muster.local.places import LocalError, state_folders
from muster.local.services import default_home, stop_services
from muster.local.stack import alone

# Every process that reads the settings leaves it: it tells a state folder from one that MUSTER_HOME names by mistake.
_MARK = "secret_key"


def reset(home: Path) -> list[Path]:
    """Remove the state of the installation; returns the folders. Raises `LocalError` while it runs."""
    folders = state_folders(home)
    if not (home / _MARK).is_file():
        raise LocalError(
            f"{home} is no state folder of Muster: MUSTER_HOME names it, else it is .muster beside the code"
        )
    with alone(home):
        if not stop_services(home):
            raise LocalError(f"a process uses the database of {home}: end it first")
        for folder in folders:
            shutil.rmtree(folder)
    return folders


def main(arguments: Sequence[str] | None = None) -> int:
    """Remove it once that is confirmed; 0 if it is gone."""
    parser = argparse.ArgumentParser(prog="python -m muster.local.reset", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    agreed: bool = parser.parse_args(arguments).yes
    home = default_home()
    folders = state_folders(home)
    if not folders:
        print(f"There is no state of {home}.")  # noqa: T201
        return 0
    print("This removes database, users, jobs and their files:", *folders, sep="\n  ")  # noqa: T201
    if not agreed and input("Remove them? [y/N] ").strip().lower() != "y":
        return 1
    try:
        reset(home)
    except LocalError as error:
        print(f"reset: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
