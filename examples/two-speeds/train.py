"""A training on an emulated GPU: each step takes as long as the model would take on the type that the job got."""

import os
import time

import muster_gpu  # a node with emulated GPUs and GPU profiles has it: docs/operator/emulated.md
from muster_report import report


def main():
    """Trains, and tells the platform how far it is."""
    name, batch_size = os.environ.get("MODEL", "big-net"), int(os.environ.get("BATCH_SIZE", "64"))
    steps = int(os.environ.get("STEPS", "2000"))
    device = muster_gpu.device()
    model = device.model(name, batch_size)
    model.load()
    print(f"{name} on {' and '.join(device.types)}, {steps} steps")
    began = time.monotonic()
    for step in range(1, steps + 1):
        model.train()
        report(step=step, total=steps, loss=4.0 / (1.0 + step / 100))
        if step % (steps // 10 or 1) == 0:
            print(f"step {step}/{steps}, {step / (time.monotonic() - began):.1f} steps/s")


if __name__ == "__main__":
    main()
