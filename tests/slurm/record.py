"""Records what a real Slurm does with each script: part of `make sbatch-reference`, as root, with slurmdbd and MariaDB.

`python -m tests.slurm.record NAME…` records these anew; without names all, three at once.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.slurm.compared import AT_ONCE, SLOW_WITHIN_S, recorded, shared_folder
from tests.slurm.likeness import likeness
from tests.slurm.on_slurm import running
from tests.slurm.runs import run
from tests.slurm.scripts import RECORD, Script, scripts


def main(names: list[str]) -> None:
    known = recorded() if names else {}
    chosen = [script for name, script in scripts().items() if not names or name in names]
    with running() as slurm, shared_folder() as shared:

        def record(script: Script) -> dict[str, Any]:
            return likeness(script, run(script, slurm, shared / script.name, within_s=SLOW_WITHIN_S))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            running_ = [(script, pool.submit(record, script)) for script in chosen]
            for script, future in running_:
                error = future.exception()
                if error is None:
                    known[script.name] = future.result()
                sys.stderr.write(f"{script.name}: {error or _told(future.result())}\n")
    lines = [f"{json.dumps(key)}: {json.dumps(known[key], sort_keys=True)}" for key in sorted(known)]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.write(f"{len(known)} scripts: {RECORD}\n")


def _told(seen: dict[str, Any]) -> str:
    if "refused" in seen:
        return "refused"
    return ", ".join(f"{label} {job['ends']} ({len(job['calls'])})" for label, job in seen["jobs"].items())


if __name__ == "__main__":
    main(sys.argv[1:])
