"""Runs everything that CI checks, in parts side by side: `make check`.

Each part is a command with an output of its own, in `build/check/logs`. More parts run at once than there are
processors, since the long half of the tests waits more than it computes. The longest begin first.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.groups import OF_THE_PAGES, ON_THE_CLUSTER

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "check" / "logs"
# On a quiet machine of two processors and more, a check that takes longer fails.
LIMIT_S = 28 * 60
QUIET_LOAD = 0.75
"""The load for each processor, up to which a machine is quiet when the check begins."""


@dataclass(frozen=True, slots=True)
class Part:
    """Targets of make, or tests: all of the short or of the long half in these files and folders, but for some."""

    name: str
    targets: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    long: bool = False
    only: str = ""
    """An expression (`pytest -k`) that narrows the tests."""

    def command(self, seed: str | None) -> list[str]:
        """The arguments of its process."""
        if self.targets:
            return ["make", "--no-print-directory", *self.targets]
        half = "long" if self.long else "not long"
        options = ["-q", "-p", "no:cacheprovider", "-m", half, *(["-k", self.only] if self.only else [])]
        drawn = [] if seed is None else ["--draw", seed]
        return [sys.executable, "-m", "pytest", *options, *drawn, *(f"--ignore={one}" for one in self.but), *self.tests]


_ON_THE_CLUSTER, _OF_THE_PAGES = sorted(ON_THE_CLUSTER), sorted(OF_THE_PAGES)
_SCHEDULER, _JOBS, _LINKS = "tests/unit/scheduler", "tests/db/jobs", "tests/db/links"
_SPEEDS = "tests/e2e/test_two_speeds.py"

# The longest first, and those that wait between those that compute.
# Each part with a database imports, starts servers and migrates for itself, some eight seconds: small ones share that.
PARTS = (
    Part("faults", tests=("tests/faults",), long=True),
    Part("db", tests=("tests/db",), but=(_JOBS, _LINKS)),
    Part("cluster", tests=(*_ON_THE_CLUSTER,), long=True),
    Part("static", targets=("check-format", "check-lint", "check-imports", "check-django", "check-types")),
    Part("pages", tests=(*_OF_THE_PAGES,), long=True),
    Part("demo", tests=("tests/e2e",), but=(*_ON_THE_CLUSTER, *_OF_THE_PAGES, _SPEEDS), long=True),
    Part("podman", tests=("tests/agent",), long=True, only="podman"),
    Part("speeds", tests=(_SPEEDS,), long=True),
    Part("slurm", tests=("tests/slurm",), long=True),
    Part("docker", tests=("tests/agent",), long=True, only="not podman"),
    Part("agent", tests=("tests/agent",)),
    Part("scheduler", tests=(_SCHEDULER,)),
    Part("outside", tests=("tests/gpu", "tests/unit", _LINKS), long=True),
    Part("rows", tests=(_JOBS, _LINKS, "tests/api")),
    Part("histories", tests=("tests/protocol",)),
    Part("e2e", tests=("tests/e2e", "tests/plugins")),
    Part("requests", tests=("tests/api", "tests/sim"), long=True),
    Part("frontend", targets=("check-frontend", "audit")),
    Part("unit", tests=("tests/unit", "tests/contract", "tests/sim", "tests/slurm"), but=(_SCHEDULER,)),
)


@dataclass(slots=True)
class Running:
    """A part that runs, or has run."""

    part: Part
    log: Path
    process: subprocess.Popen[bytes]
    began: float
    took_s: float = 0.0
    computed_s: float = 0.0
    """Processor time, without that of daemons."""
    status: int = 0


def run(parts: Sequence[Part], *, jobs: int, seed: str | None, environment: Mapping[str, str]) -> Iterator[Running]:
    """The parts in the order in which they end, `jobs` of them at once."""
    LOGS.mkdir(parents=True, exist_ok=True)
    waiting, running = list(parts), dict[int, Running]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                started = _start(waiting.pop(0), seed, environment)
                running[os.pidfd_open(started.process.pid)] = started
            for ended in select.select(list(running), [], [])[0]:
                os.close(ended)
                yield _end(running.pop(ended))
    finally:  # Ctrl-C reached them as well; they stop their servers before they end
        for one in running.values():
            one.process.wait()


def _start(part: Part, seed: str | None, environment: Mapping[str, str]) -> Running:
    log = LOGS / f"{part.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            part.command(seed), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    return Running(part, log, process, time.monotonic())


def _end(running: Running) -> Running:
    _, status, usage = os.wait4(running.process.pid, 0)
    running.process.returncode = running.status = os.waitstatus_to_exitcode(status)
    running.took_s, running.computed_s = time.monotonic() - running.began, usage.ru_utime + usage.ru_stime
    return running


def report(ended: Running) -> str:
    """A line about a part, and its whole output before that if it failed."""
    log = ended.log.read_text(errors="replace")
    lines = log.strip().splitlines() or [""]
    word = f"failed ({ended.status})" if ended.status else "ok"
    counts = lines[-1].strip("= ") if ended.part.tests else ""
    line = (
        f"{ended.part.name:10} {word:10} {ended.took_s:4.0f} s, computed {ended.computed_s:4.0f} s  {counts}".rstrip()
    )
    return f"\n== {ended.part.name}\n{log}\n{line}" if ended.status else line


def too_slow(took_s: float, *, load: float, cpus: int) -> bool:
    """True if a check took longer than it may on a machine that had this load when it began."""
    return took_s > LIMIT_S and cpus > 1 and load <= QUIET_LOAD * cpus


def main() -> int:
    cpus = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="make check", description="Run everything that CI checks.")
    parser.add_argument("--all", action="store_true", help="run also those tests of which a tenth is drawn otherwise")
    parser.add_argument("--seed", default=str(random.randrange(10**6)), help="draw the tests that were drawn by a seed")
    parser.add_argument("--jobs", type=int, default=cpus + 2, help="the number of parts that run at once")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS], help="run only these parts")
    options = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    print(f"{options.jobs} parts at once on {cpus} processors, with a load of {load:.1f}")
    print("All tests" if options.all else f"A tenth of some tests, drawn by --seed {options.seed} (--all runs all)")
    # The options of an outer make are not for those of the parts.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "ARGS"}}
    parts = [part for part in PARTS if not options.only or part.name in options.only]
    failed = []
    try:
        for one in run(parts, jobs=options.jobs, seed=None if options.all else options.seed, environment=environment):
            if one.status:
                failed.append(one.part.name)
            print(report(one), flush=True)
    except KeyboardInterrupt:
        return 130
    took_s = time.monotonic() - began
    print(f"\n{took_s:.0f} s in all")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    elif too_slow(took_s, load=load, cpus=cpus):
        print(f"A check on a quiet machine may take {LIMIT_S} s. The parts above say where the time went.")
        return 1
    else:
        print("All checks passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
