"""Links between declared GPUs: layouts as machines are built, or a matrix from a file."""

from __future__ import annotations

from typing import Sequence, Tuple

from nodeagent.gpu.port import GpuUnavailable
from nodeagent.protocol.messages import ProtocolError, nvlinks

Matrix = Tuple[Tuple[str, ...], ...]

PER_SOCKET = 4
"""GPUs on each NUMA node of a declared machine."""

# By name: the word for the GPUs of one group, how many make a group (0: all), and the word on one socket otherwise.
_LAYOUTS = {
    "nvlink-pairs": ("NV4", 2, "NODE"),
    "nvlink-quads": ("NV4", 4, "SYS"),
    "nvswitch": ("NV18", 0, "NODE"),
    "pcie": ("PIX", 2, "NODE"),
}
DEFAULT_LAYOUT = "nvlink-quads"


def matrix(layout: str, models: Sequence[str]) -> Matrix:
    """The topology of GPUs of these models: a layout's, or with a `/` in its name, that of a file."""
    if "/" in layout:
        return _from_file(layout, len(models))
    if layout not in _LAYOUTS:
        known = ", ".join(sorted(_LAYOUTS))
        raise GpuUnavailable("{!r} is not a layout: it is one of {}, or the path of a file".format(layout, known))
    return tuple(
        tuple("X" if one == other else _link(layout, models, one, other) for other in range(len(models)))
        for one in range(len(models))
    )


def _link(layout: str, models: Sequence[str], one: int, other: int) -> str:
    """The word for two of the GPUs; GPUs of two models share no NVLink."""
    inside, size, near = _LAYOUTS[layout]
    if models[one] == models[other] and (size == 0 or one // size == other // size):
        return inside
    return near if one // PER_SOCKET == other // PER_SOCKET else "SYS"


def _from_file(path: str, size: int) -> Matrix:
    """The matrix that a file spells: a line for each GPU, with a word for each, as `nvidia-smi topo -m` writes them."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = tuple(tuple(line.split()) for line in file if line.strip() and not line.startswith("#"))
    except (OSError, UnicodeDecodeError) as error:
        raise GpuUnavailable("the topology cannot be read: {}".format(error)) from error
    if [len(row) for row in rows] != [size] * size:
        raise GpuUnavailable("{} must have {} lines of {} words, one for each GPU".format(path, size, size))
    for one in range(size):
        for other in range(size):
            _check(path, rows, one, other)
    return rows


def _check(path: str, rows: Matrix, one: int, other: int) -> None:
    word = rows[one][other]
    where = "{}, line {}, word {}".format(path, one + 1, other + 1)
    if one == other:
        if word != "X":
            raise GpuUnavailable("{}: a GPU and itself are `X`, not {!r}".format(where, word))
        return
    try:
        nvlinks(word)
    except ProtocolError as error:
        raise GpuUnavailable("{}: {}".format(where, error)) from error
    if word != rows[other][one]:
        raise GpuUnavailable("{}: {!r} is {!r} the other way round".format(where, word, rows[other][one]))
