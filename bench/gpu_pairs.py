"""Steadiness of a training job's rate on a real GPU, and the rates of two jobs on one: for any Python with PyTorch.

`python3 bench/gpu_pairs.py` prints two tables; it needs one NVIDIA GPU that nothing else uses.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import combinations_with_replacement
from statistics import fmean, stdev
from typing import Any

JOBS = ("convolutions", "transformer", "small")
RUNS = 2
READING_S = 2.0
WARM_UP_STEPS = 10


def build(torch: Any, job: str) -> tuple[Any, Any]:
    """A network and its input: two that fill a large GPU, and one whose steps the processor bounds."""
    nn = torch.nn
    if job == "convolutions":
        layers = [nn.Conv2d(3, 128, 3, padding=1)]
        for _ in range(8):
            layers += [nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1)), torch.randn(64, 3, 64, 64)
    if job == "transformer":
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
        return nn.TransformerEncoder(layer, 6), torch.randn(16, 256, 512)
    return nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(128, 512)


def train(job: str, seconds: float) -> list[float]:
    """Steps per second in each reading, without the first and the last, in which another job may be alone."""
    import torch  # noqa: PLC0415 - the other Python that runs this file has it

    torch.manual_seed(0)
    network, batch = (part.cuda() for part in build(torch, job))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        network(batch).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(WARM_UP_STEPS):
        step()
    began, ends = time.monotonic(), []
    while time.monotonic() - began < seconds:
        step()
        ends.append(time.monotonic() - began)
    readings = range(1, int(seconds // READING_S) - 1)
    return [sum(at <= end / READING_S < at + 1 for end in ends) / READING_S for at in readings]


def measured(*jobs: str, seconds: float) -> list[list[float]]:
    """The readings of each job; all of them run at once."""
    words = [[sys.executable, __file__, "--job", job, "--seconds", str(seconds)] for job in jobs]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in words]
    return [json.loads(one.communicate()[0]) for one in running]


def main() -> int:
    """Train one job and print its readings, or measure all of them alone and in pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=16.0, help="of each run")
    parser.add_argument("--job", choices=JOBS, help="train this one and print its readings as JSON")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(train(options.job, options.seconds)))
        return 0
    alone: dict[str, float] = {}
    print("| job | steps/s in each run | deviation of its readings |\n|---|---|---|")
    for job in JOBS:
        runs = [measured(job, seconds=options.seconds)[0] for _ in range(RUNS)]
        alone[job] = fmean(fmean(run) for run in runs)
        rates = ", ".join(f"{fmean(run):,.1f}" for run in runs)
        print(f"| {job} | {rates} | {', '.join(f'{100 * stdev(run) / fmean(run):.1f} %' for run in runs)} |")
    print("\n| pair | of its own speed, each | together |\n|---|---|---|")
    for pair in combinations_with_replacement(JOBS, 2):
        parts = [
            fmean(run) / alone[job] for job, run in zip(pair, measured(*pair, seconds=options.seconds), strict=True)
        ]
        print(f"| {' and '.join(pair)} | {', '.join(f'{part:.2f}' for part in parts)} | {sum(parts):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
