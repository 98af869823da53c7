"""Looks for known vulnerabilities among the pinned packages of Python and npm: `make audit`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Scan:
    """A command that exits with 0 if no package has a known vulnerability."""

    packages: str
    command: tuple[str, ...]
    folder: Path
    no_answer: str
    """A pattern of the line by which the command reports that the service for advisories gave no usable answer."""


SCANS = (
    Scan(
        "Python packages",
        ("uv", "audit", "--frozen", "--preview-features", "audit-command"),
        ROOT,
        r"^error: .* for url \(.*",
    ),
    Scan(
        "npm packages",
        ("npm", "audit"),
        ROOT / "frontend",
        r"^npm warn audit .*(?=\s+^npm error audit endpoint returned an error)",
    ),
)


def run(scan: Scan, environ: Mapping[str, str]) -> tuple[bool, str]:
    """Run the scan; return True if it passes, and its result for people.

    It fails if it found a vulnerability or if the command does not work. Without an answer of the service it passes,
    since not every mirror of a registry offers advisories.
    """
    done = subprocess.run(
        scan.command,
        cwd=scan.folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return True, f"{scan.packages}: no known vulnerability"
    unanswered = re.search(scan.no_answer, done.stdout, re.MULTILINE)
    if unanswered:
        return True, f"{scan.packages}: not scanned, advisories are not offered here\n  {unanswered[0]}"
    return False, f"{scan.packages}: {' '.join(scan.command)} failed\n{done.stdout}"


def main() -> int:
    """Run all scans and print their results; returns the exit status."""
    # The tools of the environment come first, and one try decides whether a service answers.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "UV_HTTP_RETRIES": "0", "NPM_CONFIG_FETCH_RETRIES": "0"}
    results = [run(scan, environ) for scan in SCANS]
    sys.stdout.writelines(f"{text}\n" for _, text in results)
    return 0 if all(passed for passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
