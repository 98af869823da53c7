"""A training script with a bug that shows only after the first epoch: the last batch is smaller than the others."""

import random

BATCH = 32
SAMPLES = 1_000
FEATURES = 4


def batches(samples):
    """The samples, a batch at a time; the last one holds what is left over."""
    for start in range(0, len(samples), BATCH):
        yield samples[start : start + BATCH]


def mean_by_feature(batch):
    """The mean of each feature (here is the bug: it takes every batch for a full one)."""
    return [sum(batch[row][column] for row in range(BATCH)) / BATCH for column in range(FEATURES)]


def main():
    """Walks through the data until the last batch."""
    draw = random.Random(3).gauss
    samples = [[draw(0.0, 1.0) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    print(f"{SAMPLES} samples, batches of {BATCH}")
    for number, batch in enumerate(batches(samples), start=1):
        means = mean_by_feature(batch)
        if number % 8 == 0:
            print(f"batch {number:2d}  means " + " ".join(f"{mean:+.3f}" for mean in means))
    print("epoch 1 done")


if __name__ == "__main__":
    main()
