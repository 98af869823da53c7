"""The cost of `muster ls`, beside a Python that imports what its libraries are: httpx, rich and typer."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Series
from bench.live.jobs import spec_of
from bench.live.stack import Stack
from bench.plan import Plan
from muster_client.client import Client

_JOBS = 20
_IMPORTS = (sys.executable, "-c", "import httpx, rich, typer")
_LS = (str(Path(sys.executable).with_name("muster")), "ls")


def measure(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of processor time and of the clock of both, in turns, and how much more the command takes."""
    with Client(stack.url, stack.token) as client:
        for _ in range(_JOBS):
            client.wait(client.submit(spec_of("true"))["id"])
    series: Series = {f"cli_{what}_{way}": [] for what in ("imports", "ls") for way in ("cpu_ms", "ms")}
    series["cli_ratio"] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-bytecode-") as bytecode:
        environment = {**os.environ, "MUSTER_URL": stack.url, "MUSTER_TOKEN": stack.token}
        # Both find their modules compiled, as they are where a package is installed.
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(plan.warm_ups + plan.commands):
            imports, ls = _run(_IMPORTS, environment), _run(_LS, environment)
            if number < plan.warm_ups:
                continue
            for what, (cpu_ms, clock_ms) in (("imports", imports), ("ls", ls)):
                series[f"cli_{what}_cpu_ms"].append(cpu_ms)
                series[f"cli_{what}_ms"].append(clock_ms)
            series["cli_ratio"].append(ls[0] / imports[0])
    return series


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds of processor time and of the clock that a command takes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    clock_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s * 1000, clock_s * 1000
