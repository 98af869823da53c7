"""Clocks that are wrong by hours, and jump: nothing expires, nothing stops, and nothing starts twice for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.local.supervisor import Child
from tests.faults.cluster import WEB, WORKER, Cluster, until
from tests.faults.conftest import Figure
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of, starts_of, until_it_beats
from tests.faults.layout import LONG, ROUNDS
from tests.needed import skip_without

pytestmark = pytest.mark.timeout(240 * ROUNDS)

# What the clock shows at the start, and what it jumps to while jobs run.
WRONG, JUMPS = "+5h", ("-3h", "+40h") if LONG else ("-3h",)
LIBRARIES = ("/usr/lib", "/usr/local/lib")


def faketime() -> Path:
    """The library that gives a process another time of day; the monotonic clocks stay, as they do on a machine."""
    found = [path for folder in LIBRARIES for path in Path(folder).glob("**/faketime/libfaketimeMT.so.1")]
    if not found:
        skip_without("faketime", "libfaketime is missing: `make engines` installs it where there are apt and root")
    return found[0]


def with_clock(child: Child, dial: Path) -> Child:
    """The process with the time of day that the file says."""
    clock = {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(dial),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Else a wait for a time of the monotonic clock ends at once, and with it each wait for Python's lock: threads
        # that want it spin, and a process of several takes a hundred times as long.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    return replace(child, argv=("env", *(f"{name}={value}" for name, value in clock.items()), *child.argv))


@contextlib.contextmanager
def wrong_clocks(cluster: Cluster, who: str, dial: Path) -> Iterator[None]:
    """Every agent, or web and worker, by the clock of the file while the block lasts."""
    if who == "agents":
        with cluster.agents_as(lambda child: with_clock(child, dial)):
            yield
        return
    with contextlib.ExitStack() as stack:
        for name in (WEB, WORKER):
            stack.enter_context(cluster.process_as(name, lambda child: with_clock(child, dial)))
        yield


@pytest.mark.parametrize("who", ["agents", "platform"] if LONG else ["agents"])
def test_a_clock_that_is_wrong_and_jumps_ends_and_doubles_nothing(
    cluster: Cluster, figure: Figure, tmp_path: Path, who: str
) -> None:
    dial = tmp_path / "dial"
    dial.write_text(WRONG)
    with wrong_clocks(cluster, who, dial):
        long, limited = cluster.submit(BEATING, nodes=2), cluster.submit("sleep 2; echo done", user="blue", time="1h")
        until_it_beats(cluster, long)
        for jump in JUMPS:
            dial.write_text(jump)
            alive = len(stamps_of(cluster, long["id"]))
            # Three seconds: shims and the reaper look every second, and the jump is longer than any deadline.
            until(lambda alive=alive: len(stamps_of(cluster, long["id"])) > alive + 60, "it lives on", 60)
        let_end(cluster, long["id"])
        for job in (long, limited):
            assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
            assert cluster.attempts(job) == [("succeeded", "completed")]
        assert starts_of(cluster, long["id"]) == ["1", "1"]
        assert cluster.whole_log(limited) == b"done\n"
        cluster.whole_log(long)
        for rank in (0, 1):
            assert cluster.log(long, rank=rank) == output_of(cluster, long["id"], rank=rank)
        [(silences,)] = cluster.sql(
            "SELECT count(*) FROM events_event e JOIN jobs_job j ON j.id = %s"
            " WHERE e.kind IN ('node.suspect', 'node.down') AND e.at > j.submitted_at",
            long["id"],
        )
        figure(
            f"clocks of the {who}", f"{WRONG}, then {', then '.join(JUMPS)}; nodes that counted as silent: {silences}"
        )
        assert silences == 0
