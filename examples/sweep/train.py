"""A member of the sweep: logistic regression with the learning rate and momentum of its command line.

It reports `val_loss` after each step, so that the sweep can compare it with the other members.
"""

import argparse
import math
import os
import random
import sys
import time

try:  # what a node of Muster gives to each job
    from muster_report import report
except ImportError:

    def report(**_figures):
        """Report nothing outside of a job."""


STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "1"))  # how long a step takes at least
SAMPLES, FEATURES, STEPS = 400, 10, 45


def main():
    """Train, and report the loss on validation samples."""
    parser = argparse.ArgumentParser(description="Train once.")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    options = parser.parse_args()
    draw = random.Random(5).gauss
    truth = [draw(0.0, 2.0) for _ in range(FEATURES)]
    training, validation = samples(1, truth), samples(2, truth)
    weights, speed = [0.0] * FEATURES, [0.0] * FEATURES
    for step in range(1, STEPS + 1):
        end = time.monotonic() + STEP_SECONDS
        gradient, loss = gradient_and_loss(weights, training)
        speed = [options.momentum * v - options.lr * g for v, g in zip(speed, gradient)]
        weights = [w + v for w, v in zip(weights, speed)]
        _, val_loss = gradient_and_loss(weights, validation)
        report(step=step, total=STEPS, loss=loss, val_loss=val_loss)
        print(f"step {step}/{STEPS}  loss {loss:.4f}  val_loss {val_loss:.4f}")
        time.sleep(max(0.0, end - time.monotonic()))


def samples(seed, truth):
    """Rows of features, and whether each is on one side of a plane or on the other; some are on the wrong one."""
    source = random.Random(seed)
    rows = [[source.gauss(0.0, 1.0) for _ in truth] for _ in range(SAMPLES)]
    return [(row, float(sum(w * x for w, x in zip(truth, row)) + source.gauss(0.0, 1.0) > 0)) for row in rows]


def gradient_and_loss(weights, data):
    """The gradient of the mean cross-entropy, and the cross-entropy itself."""
    gradient, loss = [0.0] * len(weights), 0.0
    for row, label in data:
        score = sum(w * x for w, x in zip(weights, row))
        guess = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
        loss -= math.log(guess if label else 1 - guess)
        for index, x in enumerate(row):
            gradient[index] += (guess - label) * x
    return [component / len(data) for component in gradient], loss / len(data)


if __name__ == "__main__":
    sys.exit(main())
