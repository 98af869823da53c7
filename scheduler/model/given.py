"""Values that a decision hands to the environment of the job that it places."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Names of variables with their values, in ascending order.
Given = tuple[tuple[str, str], ...]

BATCH_SIZE = "MUSTER_BATCH_SIZE"
MAX_VALUES, MAX_CHARACTERS = 20, 1000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWNED_BY_THE_PLATFORM = re.compile(
    r"MUSTER_.*|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|MASTER_ADDR|MASTER_PORT|RANK|NODE_RANK|LOCAL_RANK|WORLD_SIZE"
)


def check_name(name: str) -> None:
    """Return if jobs and policies may set the variable; `ValueError` if its name is none, or the platform sets it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:60]!r} cannot be the name of a variable")
    if _OWNED_BY_THE_PLATFORM.fullmatch(name):
        raise ValueError(f"{name} is set by the platform and cannot be set by a job")


def given_of(values: Mapping[str, str]) -> Given:
    """The values that a policy chooses; `ValueError` if a name or a value is not allowed, or there are too many."""
    if len(values) > MAX_VALUES:
        raise ValueError(f"{len(values)} variables: at most {MAX_VALUES}")
    for name, value in values.items():
        check_name(name)
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS or "\0" in value:
            raise ValueError(f"the value of {name} must be text of at most {MAX_CHARACTERS} characters")
    return tuple(sorted(values.items()))


def with_batch(given: Given, batch: int | None) -> Given:
    """The values with the batch size of a configuration; None leaves the job its own."""
    return given if batch is None else tuple(sorted((*given, (BATCH_SIZE, str(batch)))))


def batch_of(given: Given) -> int | None:
    """The batch size among the values; None: the job's own."""
    return next((int(value) for name, value in given if name == BATCH_SIZE), None)
