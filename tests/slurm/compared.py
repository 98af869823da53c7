"""Scripts run on a system and compared with the record of what Slurm did, several at once."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.slurm.likeness import differences, likeness
from tests.slurm.runs import System, run
from tests.slurm.scripts import RECORD, scripts

AT_ONCE = 3
WITHIN_S, SLOW_WITHIN_S = 60.0, 300.0

Compare = Callable[[str], list[str]]


def recorded() -> dict[str, Any]:
    """The record of Slurm by the name of the script."""
    known: dict[str, Any] = json.loads(RECORD.read_text())
    return known


@contextmanager
def shared_folder() -> Iterator[Path]:
    """An empty folder that every account may enter and use."""
    folder = Path(tempfile.mkdtemp(prefix="muster-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def comparisons(system: System, names: Collection[str], shared: Path) -> Iterator[Compare]:
    """A function that returns the differences of a script; all that are named are begun at once.

    Called again for a script, the function runs it again.
    """
    known, listed = recorded(), scripts()

    def compare(name: str) -> list[str]:
        script = listed[name]
        base = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=shared))
        base.chmod(0o755)
        within_s = SLOW_WITHIN_S if script.slow else WITHIN_S
        return list(differences(known[name], likeness(script, run(script, system, base / "run", within_s=within_s))))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun: dict[str, Future[list[str]]] = {name: pool.submit(compare, name) for name in names}
        yield lambda name: begun.pop(name).result() if name in begun else compare(name)
        pool.shutdown(cancel_futures=True)


def by_script(reasons: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The reason of each script."""
    return {name: reason for reason, names in reasons.items() for name in names}
