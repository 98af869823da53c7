"""Requirements of tests on a machine: without them a test skips, unless the machine is to have them.

`MUSTER_REQUIRE` names what must be there, as CI does with all that it has installed: a test that would be skipped for
want of it fails. Else a run in which no engine starts is as green as one in which everything was tried.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE = "MUSTER_REQUIRE"
PARTS = frozenset(
    ("busybox", "chromium", "docker", "docker-compose", "faketime", "networks", "podman", "sshd", "torch")
)


def skip_without(part: str, why: str) -> NoReturn:
    """Skip the test that needs this, or fail it where the machine is to have it."""
    if is_required(part):
        pytest.fail(f"{REQUIRE} names {part}: {why}", pytrace=False)
    pytest.skip(why)


def needs(part: str, why: str, *, found: bool) -> pytest.MarkDecorator:
    """The mark of tests that are skipped where this was not `found`; where the machine is to have it, they fail."""
    if not found and is_required(part):
        pytest.fail(f"{REQUIRE} names {part}: {why}", pytrace=False)
    return pytest.mark.skipif(not found, reason=why)


def is_required(part: str) -> bool:
    """True if the machine is to have a part; a name that is none of them is a mistake."""
    required = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")} - {""}
    unknown = (required | {part}) - PARTS
    if unknown:
        raise pytest.UsageError(f"{REQUIRE}: no such part: {', '.join(sorted(unknown))}; there are {sorted(PARTS)}")
    return part in required
