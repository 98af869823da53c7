"""Fixtures that are slow to start and shared by several files: kept until a test comes that is not of their group.

Idle processes cost the tests after them; `tests.conftest` says which files are a group, and one worker has all of one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

T = TypeVar("T")

_KEPT: dict[Callable[[], AbstractContextManager[Any]], Any] = {}
_ENDS = ExitStack()


def kept(make: Callable[[], AbstractContextManager[T]]) -> T:
    """The object that `make` makes, as it was made for the first caller."""
    if make not in _KEPT:
        _KEPT[make] = _ENDS.enter_context(make())
    found: T = _KEPT[make]
    return found


def end_what_is_kept() -> None:
    """Ends all of it; who asks next gets a new one."""
    _KEPT.clear()
    _ENDS.close()
