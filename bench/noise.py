"""Surroundings of a signature in real logs: the same log, said by other means."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache

CHATTER_BYTES = 64 << 10


@cache
def chatter(seed: int, size: int = CHATTER_BYTES) -> str:
    """Lines of a training that goes well, the same for the same seed."""
    draw = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        step = draw.randrange(100_000)
        line = draw.choice(
            (
                f"step {step}: loss {draw.random():.4f} lr 1.0e-4 {draw.randrange(900)} samples/s",
                f"2031-01-01 10:00:{step % 60:02} INFO trainer: epoch {step % 90} step {step} acc 0.{step}",
                f" {step % 100}%|{'█' * (step % 20)}| {step}/100000 [00:07<00:12, 9.1it/s]",
                f"[rank{step % 8}]: saved to /data/run-{step}/state in {draw.random():.2f} s",
                f'{{"level": "info", "step": {step}, "loss": {draw.random():.4f}}}',
                "wandb: 0.017 MB of 0.017 MB uploaded",
                "",
            )
        )
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines) + "\n"


def _each(log: str, change: Callable[[int, str], str]) -> str:
    return "\n".join(change(number, line) for number, line in enumerate(log.splitlines()))


NOISE: dict[str, Callable[[str], bytes]] = {
    "nothing at the end": lambda log: log.rstrip("\n").encode(),
    "chatter before": lambda log: (chatter(1) + log).encode(),
    "chatter after": lambda log: (log + "\n" + chatter(2)).encode(),
    "chatter around": lambda log: (chatter(3) + log + "\n" + chatter(4)).encode(),
    "much before": lambda log: (chatter(5, 1 << 20) + log).encode(),
    "prefix of a rank": lambda log: _each(log, lambda _, line: f"[rank3]: {line}").encode(),
    "prefix of a number": lambda log: _each(log, lambda _, line: f"3: {line}").encode(),
    "prefix of a node": lambda log: _each(log, lambda _, line: f"node1: {line}").encode(),
    "times": lambda log: _each(log, lambda number, line: f"2031-01-01T10:00:{number % 60:02}.123Z {line}").encode(),
    "JSON lines": lambda log: _each(log, lambda _, line: json.dumps({"log": line + "\n", "stream": "stderr"})).encode(),
    "one JSON line": lambda log: json.dumps({"message": log, "stream": "stderr"}).encode(),
    "colours": lambda log: _each(log, lambda _, line: f"\x1b[1;31m{line}\x1b[0m").encode(),
    "coloured words": lambda log: log.replace(" ", " \x1b[0m\x1b[33m").encode(),
    "Windows' line ends": lambda log: log.replace("\n", "\r\n").encode(),
    "a progress bar before each line": lambda log: _each(
        log, lambda number, line: f" {number}%|█   | {number}/100 [00:01<00:09]\r{line}"
    ).encode(),
    "other ranks between the lines": lambda log: _each(
        log, lambda number, line: f"{line}\n[rank5]: saved to /data/run-{number}/state in 0.{number} s"
    ).encode(),
    "bytes that are no text": lambda log: b"\xff\xfe\xc3(" * 9 + b"\n" + log.encode() + b"\n\x80\x81\xfe",
    "zeros": lambda log: log.replace("\n", "\n\0\0").encode(),
    "UTF-16": lambda log: log.encode("utf-16"),
    "UTF-16 without a mark": lambda log: log.encode("utf-16-be"),
    "a huge line before": lambda log: b"x" * (3 << 20) + b"\n" + log.encode(),
    "many short lines before": lambda log: b"ok\n" * 700_000 + log.encode(),
}
