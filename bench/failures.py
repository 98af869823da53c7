"""Times of the classifier of failures: for the tail of an ordinary log, and for logs made to hinder it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from bench.figures import Series
from scheduler.diagnosis.failures import Tail, builtin, classify

TAIL_BYTES, HOSTILE_BYTES = 64 << 10, 1 << 20


def measure(*, samples: int) -> Series:
    """Milliseconds of processor time, of each tail; of each hostile log the middle one of three runs."""
    classify([Tail(b"warm")])
    tails = [_milliseconds(tail) for tail in ordinary_tails(samples)]
    hostile = [sorted(_milliseconds(log) for _ in range(3))[1] for log in hostile_logs().values()]
    return {"failures_tail_ms": tails, "failures_hostile_ms": hostile}


def ordinary_tails(samples: int) -> Iterator[bytes]:
    """Tails of training logs with a traceback and the complaints of other ranks in them, each another one."""
    rules = builtin().rules
    for seed in range(samples):
        draw = random.Random(seed)
        rule = rules[seed * 7 % len(rules)]
        chatter = [
            f"[rank{draw.randrange(8)}]: 2031-01-01 00:00:{second:02} INFO step {second} loss {draw.random():.4f}"
            for second in range(60)
        ] * 20
        middle = ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', rule.line]
        ranks = [f"[rank{rank}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)" for rank in range(8)]
        text = "\n".join((*chatter[:500], *middle, *ranks, *chatter)).encode()
        yield (text * (TAIL_BYTES // len(text) + 1))[-TAIL_BYTES:]


def hostile_logs() -> dict[str, bytes]:
    """A MiB each: what has no lines, nothing but lines, nearly every signature, and every signature everywhere."""
    draw = random.Random(0)
    rules = builtin().rules
    lines = [rule.line for rule in rules]
    words = [word for line in lines for word in line.split()]
    texts = {
        "one letter": "a" * HOSTILE_BYTES,
        "empty lines": "\n" * HOSTILE_BYTES,
        "short lines": "a\n" * (HOSTILE_BYTES // 2),
        "every signature": "\n".join(lines),
        "every signature, one line": " ".join(lines),
        "halves": "\n".join(line[: len(line) * 2 // 3] for line in lines),
        "words": " ".join(draw.choice(words) for _ in range(150_000)),
        "colours": "\x1b[31mE\x1b[0m" * (HOSTILE_BYTES // 10),
        "unfinished colours": "\x1b[" * (HOSTILE_BYTES // 2),
        "returns": "\r 10%|#| loss 1" * (HOSTILE_BYTES // 15),
        "steps": "RuntimeError: x\nstep 1 loss 2\n" * (HOSTILE_BYTES // 30),
        "tracebacks": "KeyError: 1\n" * (HOSTILE_BYTES // 12),
        "prefixes": "CUDA error: CUDA error CUDA out of " * (HOSTILE_BYTES // 34),
        "brackets": "[" * HOSTILE_BYTES,
        "spaces": " " * HOSTILE_BYTES,
        "bytes": "".join(chr(draw.randrange(256)) for _ in range(HOSTILE_BYTES)),
    }
    return {
        name: (text.encode("latin-1", "replace") * (HOSTILE_BYTES // len(text) + 1))[:HOSTILE_BYTES]
        for name, text in texts.items()
    }


def _milliseconds(log: bytes) -> float:
    started = time.process_time()
    classify([Tail(log)])
    return (time.process_time() - started) * 1e3
