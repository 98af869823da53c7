"""A scheduler of one's own, in a hundred lines: it waits for offers of GPUs and decides itself what runs on them.

    muster login https://muster.example.org
    python3 framework.py --role research --trials 8

It searches a learning rate: each trial is a job on one GPU. As many trials as an offer has GPUs start on it together;
what an offer has too much comes back at once, and offers that are not needed are declined. A trial that failed is run
again on another offer. That is the point of two levels: which trial, where, and what to do when it fails is decided
here, by something that knows what the trials are for; that nobody gets another's GPUs is decided by the platform.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from typing import Any

from muster_client import ApiError, Client
from muster_client.session import Session

COMMAND = 'python3 -c \'print("loss", (float("%s") - 0.01) ** 2)\''
MOST_TRIES = 3


class Search:
    """The trials that wait, run and have ended."""

    def __init__(self, client: Client, trials: int) -> None:
        self.client = client
        self.waiting = deque((number, 10 ** -(1 + 4 * number / max(1, trials - 1))) for number in range(trials))
        self.running: dict[int, tuple[int, float]] = {}
        self.tries: dict[int, int] = {}
        self.failed: list[int] = []

    @property
    def over(self) -> bool:
        return not self.waiting and not self.running

    def launch(self, offer: Any) -> None:
        """Start as many trials on the offer as it has GPUs, or give it back."""
        count = min(len(self.waiting), len(offer["gpus"]), offer["cpus"])
        if not count:
            self.client.decline_offer(offer["id"], filter="1m")
            return
        trials = [self.waiting.popleft() for _ in range(count)]
        launches: list[Any] = [
            {"spec": self.spec(number, rate), "gpus": [gpu["uuid"]]}
            for (number, rate), gpu in zip(trials, offer["gpus"])
        ]
        try:
            jobs = self.client.accept_offer(offer["id"], launches)
        except ApiError as error:
            # The lease ran out, or the node was taken out of service: nothing has started.
            print(f"offer {offer['id']}: {error}", file=sys.stderr)
            self.waiting.extendleft(reversed(trials))
            return
        for trial, job in zip(trials, jobs):
            self.running[job["id"]] = trial
            self.tries[trial[0]] = self.tries.get(trial[0], 0) + 1
        print(f"offer {offer['id']} of {offer['node']}: {count} of {len(offer['gpus'])} GPUs used")

    def spec(self, number: int, rate: float) -> dict[str, Any]:
        return {"name": f"trial-{number}", "command": COMMAND % rate, "gpus": 1, "time": "10m"}

    def look(self) -> None:
        """See which trials have ended."""
        for job_id, trial in sorted(self.running.items()):
            job = self.client.job(job_id)
            if job["state"] not in {"succeeded", "failed", "cancelled"}:
                continue
            del self.running[job_id]
            print(f"trial {trial[0]}, learning rate {trial[1]:g}: {job['state']}")
            if job["state"] == "succeeded":
                continue
            if self.tries[trial[0]] < MOST_TRIES and job["state"] == "failed":
                self.waiting.append(trial)
            else:
                self.failed.append(trial[0])


def search(client: Client, role: str, trials: int, *, look_every_s: int = 2) -> int:
    """Run all trials; 0 if each of them succeeded in the end."""
    framework = client.register_framework(role, needs="plain")
    print(f"framework {framework['id']} in role {role}: virtual cluster {framework['vc']}")
    work = Search(client, trials)
    try:
        while not work.over:
            # While trials run, an offer is one of several things to wait for, so the wait is short.
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
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args()
    with Session().client() as client:
        return search(client, options.role, options.trials)


if __name__ == "__main__":
    sys.exit(main())
