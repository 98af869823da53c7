"""Data-parallel linear regression: each rank has its own data, all ranks have the same weights.

In every step each rank computes the gradient on its shard, and a ring all-reduce gives all ranks the mean gradient. At
the end the weights must be those that made the data, and the same to the last bit on every rank.
"""

import os
import random
import struct
import sys
import zlib

from ring import Ring

TRUE_WEIGHTS = [2.0, -3.0, 0.5, 1.25, -0.75, 4.0, 0.0, -1.5]
SAMPLES_PER_RANK = 8_000
STEPS = 40
LEARNING_RATE = 0.4
NOISE = 0.05


def shard(rank):
    """This rank's samples: rows of features and the noisy values that they should give."""
    draw = random.Random(1_000 + rank).gauss
    rows = [[draw(0.0, 1.0) for _ in TRUE_WEIGHTS] for _ in range(SAMPLES_PER_RANK)]
    values = [sum(w * x for w, x in zip(TRUE_WEIGHTS, row)) + draw(0.0, NOISE) for row in rows]
    return rows, values


def gradient_and_loss(weights, rows, values):
    """The gradient of the mean squared error on this shard, with the error itself as the last element."""
    gradient = [0.0] * len(weights)
    loss = 0.0
    for row, value in zip(rows, values):
        error = sum(w * x for w, x in zip(weights, row)) - value
        loss += error * error
        for index, x in enumerate(row):
            gradient[index] += error * x
    return [component / len(rows) for component in gradient] + [loss / len(rows)]


def main():
    """Trains, and returns 0 when every rank found the weights."""
    ring = Ring.from_environment()
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    count = len([name for name in gpus.split(",") if name])
    print(f"rank {ring.rank} of {ring.size}: {count} GPUs, {SAMPLES_PER_RANK} samples")
    rows, values = shard(ring.rank)
    weights = [0.0] * len(TRUE_WEIGHTS)
    for step in range(1, STEPS + 1):
        *gradient, loss = (total / ring.size for total in ring.all_reduce(gradient_and_loss(weights, rows, values)))
        weights = [w - LEARNING_RATE * g for w, g in zip(weights, gradient)]
        if ring.rank == 0 and (step == 1 or step % 5 == 0):
            print(f"step {step:3d}/{STEPS}  loss {loss:.6f}")
    worst = max(abs(w - true) for w, true in zip(weights, TRUE_WEIGHTS))
    # Each rank puts the checksum of its weights into its own slot, so the sum gives all ranks all checksums.
    own = zlib.crc32(struct.pack(f"<{len(weights)}d", *weights))
    checksums = ring.all_reduce([float(own) if slot == ring.rank else 0.0 for slot in range(ring.size)])
    agree = len(set(checksums)) == 1
    ring.close()
    print(f"rank {ring.rank}: largest error of a weight {worst:.4f}, ranks agree: {'yes' if agree else 'NO'}")
    return 0 if agree and worst < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
