"""Tell the platform how a training goes: two lines in a script, and nothing that can stop it.

    from muster_client.training import checkpoint, report   # or, on a node of Muster: from muster_report import ...

    report(step=step, loss=loss, accuracy=accuracy, total=steps)
    with checkpoint():
        torch.save(...)

This file needs nothing but Python 3.7 and stands alone: a node gives it to each job as the module `muster_report`, and
it may be copied into an image. The SDK has it as `muster_client/training.py`, which is a link in the source tree.

It writes lines of JSON to the file at MUSTER_METRICS, and the step to the file at MUSTER_PROGRESS; a shell script can
do the same. Without these variables it does nothing.

Nothing here raises into the training loop, blocks, or keeps a value: if the file cannot be written, a line is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["checkpoint", "report"]

BURST, PER_S = 60.0, 1.0
"""Lines per set of names: at once, and per second after that."""
MAX_FILE_BYTES = 1 << 20
"""A longer file is emptied: the agent reads it every few seconds."""
MAX_LINE_BYTES = 4096
"""Lines up to this length are written whole, also beside other writers."""
MAX_NAMES = 32
_RANKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

# What is left of the burst of each set of names, and since when.
_left: dict[tuple[str, ...], tuple[float, float]] = {}


def report(step: Any = None, loss: Any = None, *, total: Any = None, **metrics: Any) -> None:
    """Tell figures of a step; what has a `float()` is a figure, tensors of one element too.

    `step` counts over the whole job, and `total` says where it ends. Only the first of the ranks is heard. A script
    that reports more often than once a second is heard once a second, and its other values are not even looked at: on
    a GPU that would wait for them.
    """
    path = os.environ.get("MUSTER_METRICS")
    if not path or not _is_first_rank():
        return
    # Whatever goes wrong here must not end a training: a tensor on a device that is lost raises all kinds of things.
    with contextlib.suppress(Exception):
        told = {"loss": loss, "total": total, **metrics}
        given = {name: value for name, value in told.items() if value is not None}
        if given and _may_write(tuple(sorted(given))):
            _write(path, step, given)


@contextlib.contextmanager
def checkpoint() -> Iterator[None]:
    """Tell how long the saving of a checkpoint took: from it, the platform says how often to save one."""
    began = time.monotonic()
    yield
    report(checkpoint_s=time.monotonic() - began)


def _write(path: str, step: Any, given: dict[str, Any]) -> None:
    line: dict[str, Any] = {}
    at = _number(step)
    if at is not None:
        line["step"] = at
    for name, value in list(given.items())[:MAX_NAMES]:
        number = _number(value)
        if number is not None:
            line[name] = number
    data = json.dumps(line).encode("ascii") + b"\n"
    if len(data) > MAX_LINE_BYTES:
        return
    descriptor = os.open(path, _FLAGS | os.O_APPEND, 0o600)
    try:
        if os.fstat(descriptor).st_size > MAX_FILE_BYTES:
            os.ftruncate(descriptor, 0)
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    progress = os.environ.get("MUSTER_PROGRESS")
    if progress and at is not None and 0 <= at < 1 << 53:
        _write_progress(progress, at)


def _write_progress(path: str, at: float) -> None:
    """Overwrite the number in place, so that a reader always finds one."""
    data = f"{int(at) if at == int(at) else repr(at):<24}\n".encode("ascii")
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _number(value: Any) -> float | None:
    """The number that this is; None for what is none. NaN and the infinite are numbers here: they are worth telling."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except Exception:  # noqa: BLE001 - a tensor's conversion may raise anything
        return None


def _may_write(names: tuple[str, ...]) -> bool:
    now = time.monotonic()
    left, since = _left.get(names, (BURST, now))
    left = min(BURST, left + (now - since) * PER_S)
    if left < 1:
        _left[names] = (left, now)
        return False
    if len(_left) > 1000:
        _left.clear()
    _left[names] = (left - 1, now)
    return True


def _is_first_rank() -> bool:
    return all(os.environ.get(name, "0") in ("", "0") for name in _RANKS)
