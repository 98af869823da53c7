"""Losses and steps, parsed from the output of frameworks."""

from __future__ import annotations

import math

import pytest

from scheduler.diagnosis.training.loglines import MAX_LOSSES, LossLine, StepCounter, loss_in, losses_in

LINES: dict[str, LossLine | None] = {
    "loss: 0.123": LossLine(0.123),
    "loss=1.2e-3": LossLine(0.0012),
    "Loss 2.5": LossLine(2.5),
    "{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 1.0}": LossLine(0.5, epoch=1.0),
    '{"step": 12, "loss": 0.5}': LossLine(0.5, step=12.0),
    "step 100/1000 loss 0.25": LossLine(0.25, step=100.0, steps=1000.0),
    "[2026-01-01 00:00:00] INFO iter 7: train loss 0.5, lr 1e-4": LossLine(0.5, step=7.0),
    "Epoch 3/10 - loss: 0.5 - val_loss: 0.75": LossLine(0.5, epoch=3.0, epochs=10.0),
    "Epoch [3/10], Step [45/100], Loss: 0.5": LossLine(0.5, 45.0, 100.0, 3.0, 10.0),
    "epoch 7/12  loss 0.4321  accuracy 0.875": LossLine(0.4321, epoch=7.0, epochs=12.0),
    " 45%|####5     | 45/100 [00:10<00:12,  4.50it/s, loss=0.5]": LossLine(0.5, 45.0, 100.0),
    "iteration 5000 of 9000: training_loss = .5": LossLine(0.5, 5000.0, 9000.0),
    "train_loss 0.5": LossLine(0.5),
    "total_loss: 3.": LossLine(3.0),
    "loss: tensor(0.5, device='cuda:0')": LossLine(0.5),
    "loss: -1.5": LossLine(-1.5),
    "loss = inf": LossLine(math.inf),
    "| epoch   1 |   200/ 2983 batches | lr 5.00 | loss  8.13 | ppl  3400": LossLine(8.13, epoch=1.0),
    "step 12/10 loss 1": LossLine(1.0, step=12.0),
    "val_loss: 0.5": None,
    "loss_scale: 65536": None,
    "cls_loss: 0.5": None,
    "stop_loss=1": None,
    "no loss here": None,
    "loss of 3 packets": None,
    "loss: n/a": None,
    "lossless 5": None,
    "loss: 0x10": None,
    "": None,
}


@pytest.mark.parametrize(("line", "told"), LINES.items(), ids=list(LINES))
def test_a_line_tells_its_loss(line: str, told: LossLine | None) -> None:
    assert loss_in(line.encode()) == told


def test_no_number_is_a_loss_too() -> None:
    found = loss_in(b"step 5 loss: nan")
    assert found is not None
    assert math.isnan(found.loss)
    assert found.step == 5.0


def test_lines_end_with_a_carriage_return_too() -> None:
    assert [one.loss for one in losses_in(b"loss 1\rloss 2\r\nother\nloss 3")] == [1.0, 2.0, 3.0]


def test_of_many_lines_some_are_taken_evenly_and_the_last() -> None:
    found = losses_in(b"".join(b"step %d loss 1.0\n" % step for step in range(1, 10_001)))
    steps = [one.step for one in found]
    assert (len(steps), steps[0], steps[-1]) == (MAX_LOSSES, 50.0, 10_000.0)


@pytest.mark.parametrize(
    "data",
    [
        b"loss" * 1_000_000,
        b"loss: " + b"9" * 4_000_000,
        b"loss " * 100_000 + b"\n" + b"\n" * 1_000_000,
        bytes(range(256)) * 10_000,
        b"Epoch [" * 500_000,
        b"\n".join([b"loss: " + b" " * 900] * 4000),
    ],
    ids=["one word", "one number", "words", "binary", "half a pair", "spaces"],
)
def test_what_is_made_to_be_slow_is_not(data: bytes) -> None:
    # A backtracking engine needs hours for it and would hit the time limit of the test.
    assert len(losses_in(data)) <= MAX_LOSSES


def placed(*lines: str) -> list[tuple[float | None, float | None]]:
    place = StepCounter()
    return [place.of(one) for line in lines if (one := loss_in(line.encode())) is not None]


def test_a_count_that_begins_anew_with_each_epoch_goes_on() -> None:
    told = placed(
        "epoch 1/2 step 50/100 loss 4",
        "epoch 1/2 step 100/100 loss 3",
        "epoch 2/2 step 50/100 loss 2",
        "epoch 2/2 step 100/100 loss 1",
    )
    assert told == [(50.0, 200.0), (100.0, 200.0), (150.0, 200.0), (200.0, 200.0)]


def test_an_epoch_alone_is_a_place_and_among_steps_it_is_none() -> None:
    assert placed("epoch 1/9 loss 2", "epoch 2/9 loss 1") == [(1.0, 9.0), (2.0, 9.0)]
    assert placed("step 500 loss 2", "epoch 1/9 loss 1", "step 600 loss 1") == [
        (500.0, None),
        (None, None),
        (600.0, None),
    ]


def test_steps_that_begin_anew_have_no_known_end() -> None:
    assert placed("step 9/10 loss 2", "step 1/10 loss 1") == [(9.0, 10.0), (10.0, None)]
