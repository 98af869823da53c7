"""A framework in a hundred lines: it waits for offers of GPUs and decides what runs on them.

    muster login https://muster.example.org
    python3 framework.py --role research --rates 8

It searches a learning rate: each rate is tested by a job on one GPU. An offer starts as many jobs as it has GPUs; the
rest of the offer returns to the platform at once, and offers that are not needed are declined. A failed job runs again
on another offer. This is the point of two levels: the framework knows what its jobs are for, and decides which of them
run where and what happens when one fails; the platform keeps the GPUs of users apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from typing import Any

from muster_client import ApiError, Client
from muster_client.session import Session

COMMAND = 'python3 -c \'print("loss", (float("%s") - 0.01) ** 2)\''
MAX_TRIES = 3


class Search:
    """The learning rates that wait, run and failed; a rate is its number and its value."""

    def __init__(self, client: Client, rates: int) -> None:
        self.client = client
        self.waiting = deque((number, 10 ** -(1 + 4 * number / max(1, rates - 1))) for number in range(rates))
        self.running: dict[int, tuple[int, float]] = {}
        self.tries: dict[int, int] = {}
        self.failed: list[int] = []

    @property
    def over(self) -> bool:
        return not self.waiting and not self.running

    def launch(self, offer: Any) -> None:
        """Start as many jobs on the offer as it has GPUs; decline it if no rate waits."""
        count = min(len(self.waiting), len(offer["gpus"]), offer["cpus"])
        if not count:
            self.client.decline_offer(offer["id"], filter="1m")
            return
        rates = [self.waiting.popleft() for _ in range(count)]
        launches: list[Any] = [
            {"spec": self.spec(number, rate), "gpus": [gpu["uuid"]]}
            for (number, rate), gpu in zip(rates, offer["gpus"])
        ]
        try:
            jobs = self.client.accept_offer(offer["id"], launches)
        except ApiError as error:
            # The lease ran out, or the node was taken out of service: nothing has started.
            print(f"offer {offer['id']}: {error}", file=sys.stderr)
            self.waiting.extendleft(reversed(rates))
            return
        for rate, job in zip(rates, jobs):
            self.running[job["id"]] = rate
            self.tries[rate[0]] = self.tries.get(rate[0], 0) + 1
        print(f"offer {offer['id']} of {offer['node']}: {count} of {len(offer['gpus'])} GPUs used")

    def spec(self, number: int, rate: float) -> dict[str, Any]:
        return {"name": f"rate-{number}", "command": COMMAND % rate, "gpus": 1, "time": "10m"}

    def look(self) -> None:
        """Look which jobs have ended."""
        for job_id, rate in sorted(self.running.items()):
            job = self.client.job(job_id)
            if job["state"] not in {"succeeded", "failed", "cancelled"}:
                continue
            del self.running[job_id]
            print(f"job {job_id}, learning rate {rate[1]:g}: {job['state']}")
            if job["state"] == "succeeded":
                continue
            if self.tries[rate[0]] < MAX_TRIES and job["state"] == "failed":
                self.waiting.append(rate)
            else:
                self.failed.append(rate[0])


def search(client: Client, role: str, rates: int, *, look_every_s: int = 2) -> int:
    """Test all rates; return 0 if a job succeeded for each of them."""
    framework = client.register_framework(role, needs="plain")
    print(f"framework {framework['id']} in role {role}: virtual cluster {framework['vc']}")
    work = Search(client, rates)
    try:
        while not work.over:
            # While jobs run, their ends are waited for as well, so the wait for an offer is short.
            for offer in client.offers(wait_s=look_every_s if work.running else 20):
                work.launch(offer)
            work.look()
    finally:
        client.leave(framework["id"])
    return 1 if work.failed else 0


def main() -> int:
    """Read the command line and search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--role", required=True, help="a role that an operator has made for your virtual cluster")
    parser.add_argument("--rates", type=int, default=8)
    options = parser.parse_args()
    with Session().client() as client:
        return search(client, options.role, options.rates)


if __name__ == "__main__":
    sys.exit(main())
