"""Says where it runs, then estimates pi by throwing darts, with its progress in the log."""

import math
import os
import platform
import random
import time

ROUNDS = 10
DARTS = 200_000


def main() -> None:
    """Prints the estimate after every round."""
    job, attempt = os.environ.get("MUSTER_JOB_ID", "none"), os.environ.get("MUSTER_ATTEMPT", "none")
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") or "none"
    print(f"hello from {platform.node()}: job {job}, attempt {attempt}, Python {platform.python_version()}")
    print(f"GPUs that I may use: {gpus}")
    draw = random.Random(17).random
    inside = thrown = 0
    start = time.monotonic()
    for number in range(1, ROUNDS + 1):
        inside += sum(draw() ** 2 + draw() ** 2 <= 1.0 for _ in range(DARTS))
        thrown += DARTS
        estimate = 4 * inside / thrown
        error = abs(estimate - math.pi)
        tell(thrown)
        print(f"[{number * 100 // ROUNDS:3d}%] {thrown:>9,} darts  pi = {estimate:.5f}  error {error:.5f}")
    print(f"done in {time.monotonic() - start:.1f} s")


def tell(thrown: int) -> None:
    """Tells the platform how far the job is, so that its page shows how fast it gets on."""
    path = os.environ.get("MUSTER_PROGRESS")
    if path:
        with open(path, "w") as file:
            file.write(f"{thrown}\n")


if __name__ == "__main__":
    main()
