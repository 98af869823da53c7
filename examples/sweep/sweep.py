"""A sweep over learning rate and momentum: a job for each pair, found again by its tags, compared by its last line.

    muster login https://muster.example.org
    python3 sweep.py --lr 0.01 0.1 1 --momentum 0 0.9

The jobs are in the queue at once, at low priority, and run as GPUs come free. `muster ls --tag sweep:NAME` lists them
too; `muster cancel` ends jobs that are clearly worse than others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster_client import Client
from muster_client.logs import LogEnd, LogText
from muster_client.pack import pack_folder
from muster_client.session import Session
from muster_client.spec import read_spec

HERE = Path(__file__).resolve().parent


def sweep(client: Client, name: str, grid: Sequence[tuple[float, float]], **changes: Any) -> list[dict[str, Any]]:
    """Run a job for each pair of learning rate and momentum; return the results, the best first."""
    spec = {**read_spec(HERE / "job.yaml"), **changes}
    with pack_folder(HERE) as archive:
        if not client.knows_upload(archive.sha256):
            client.upload(archive)
        spec["code"] = {"upload": archive.sha256}
    job_ids = []
    for lr, momentum in grid:
        own = {"env": {"LR": lr, "MOMENTUM": momentum}, "tags": {**spec["tags"], "sweep": name, "lr": lr}}
        job_ids.append(client.submit({**spec, **own})["id"])
    print(f"submitted {len(job_ids)} jobs: muster ls --tag sweep:{name}")
    results = [result_of(client, job_id) for job_id in job_ids]
    return sorted(results, key=lambda result: result.get("loss", float("inf")))


def result_of(client: Client, job_id: int) -> dict[str, Any]:
    """The final state of a job, and the result in the last line of its log."""
    text, state = "", ""
    for event in client.follow_logs(job_id):
        if isinstance(event, LogText):
            text = (text + event.text)[-1000:]
        elif isinstance(event, LogEnd):
            state = event.state
    result = json.loads(text.splitlines()[-1]) if state == "succeeded" else {}
    return {"job": job_id, "state": state, **result}


def main() -> int:
    """Read the command line, sweep, and print the table; 1 if a job did not succeed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--name", default=time.strftime("%Y%m%d-%H%M%S"), help="the tag by which the jobs are found")
    parser.add_argument("--lr", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    parser.add_argument("--momentum", type=float, nargs="+", default=[0.0, 0.9])
    options = parser.parse_args()
    grid = list(itertools.product(options.lr, options.momentum))
    with Session().client() as client:
        results = sweep(client, options.name, grid)
    for result in results:
        print("{job:>8}  {state:10}  lr {lr:<6}  momentum {momentum:<6}  loss {loss}".format_map(_Shown(result)))
    return 0 if all(result["state"] == "succeeded" for result in results) else 1


class _Shown(dict[str, Any]):
    """A result whose figures may be missing."""

    def __missing__(self, key: str) -> str:
        return "-"


if __name__ == "__main__":
    sys.exit(main())
