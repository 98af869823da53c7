"""One run of a sweep: logistic regression with the learning rate and momentum of the environment.

The last line of its log is the result as JSON; `sweep.py` compares the runs by it.
"""

import json
import math
import os
import random
import sys

LR, MOMENTUM = float(os.environ.get("LR", "0.1")), float(os.environ.get("MOMENTUM", "0.9"))
SAMPLES, FEATURES, STEPS = 400, 10, 60


def main():
    """Train, then print the loss on validation samples."""
    draw = random.Random(5).gauss
    truth = [draw(0.0, 2.0) for _ in range(FEATURES)]
    training, validation = samples(1, truth), samples(2, truth)
    weights, speed = [0.0] * FEATURES, [0.0] * FEATURES
    for step in range(1, STEPS + 1):
        gradient, loss = gradient_and_loss(weights, training)
        speed = [MOMENTUM * v - LR * g for v, g in zip(speed, gradient)]
        weights = [w + v for w, v in zip(weights, speed)]
        if step % 20 == 0:
            print(f"step {step}/{STEPS}  loss {loss:.4f}")
    _, loss = gradient_and_loss(weights, validation)
    print(json.dumps({"lr": LR, "momentum": MOMENTUM, "loss": round(loss, 4)}))


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
