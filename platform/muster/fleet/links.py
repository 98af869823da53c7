"""The closeness of a node's GPUs to each other: from the words of its agent to scores that placements compare.

NVLinks count ten each, so that any of them is closer than PCIe: there, two GPUs score 5 at one switch, 4 over several,
3 at a host bridge, 2 on one NUMA node and 1 across sockets. A GPU scores nothing with itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.common.errors import Invalid
from nodeagent.protocol.messages import PCIE_LEVELS, ProtocolError, nvlinks

FOR_EACH_NVLINK = 10

Scores = list[list[int]]


def link_scores(topology: Sequence[Sequence[str]], *, indexes: Sequence[int], field: str) -> Scores:
    """The scores by GPU index, larger is closer, by the weaker direction; empty if the topology is unknown.

    A matrix that does not fit these GPUs is `Invalid`.
    """
    if not topology:
        return []
    size = len(indexes)
    if list(indexes) != list(range(size)):
        raise Invalid.field(field, "the indexes of the GPUs must count up from 0 where their links are told")
    if len(topology) != size:
        raise Invalid.field(field, f"it has {len(topology)} rows, and there are {size} GPUs")
    for row, words in enumerate(topology):
        if len(words) != size:
            raise Invalid.field(f"{field}[{row}]", f"it has {len(words)} words, and there are {size} GPUs")
    told = [
        [_score(word, row == column, f"{field}[{row}][{column}]") for column, word in enumerate(words)]
        for row, words in enumerate(topology)
    ]
    return [[min(told[row][column], told[column][row]) for column in range(size)] for row in range(size)]


def _score(word: str, itself: bool, field: str) -> int:
    if itself or word == "X":
        if itself and word == "X":
            return 0
        raise Invalid.field(field, "X stands on the diagonal, and nothing else does")
    try:
        links = nvlinks(word)
    except ProtocolError as error:
        raise Invalid.field(field, str(error)) from error
    return links * FOR_EACH_NVLINK or PCIE_LEVELS.index(word) + 1
