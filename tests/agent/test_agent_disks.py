"""The whole agent with a limit of what its jobs may take of a disk, against a platform that checks every message."""

from __future__ import annotations

from nodeagent.protocol import EndReason
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.agent.waiting import eventually
from tests.faults.disks import filled, small_disk

LARGE = "trap 'echo saved; exit 0' TERM; head -c 30000000 /dev/zero > large; while :; do sleep 0.05; done"
SMALL = "head -c 3000000 /dev/zero > small; while :; do sleep 0.05; done"


def test_a_job_beyond_the_limit_saves_its_work_and_ends_and_no_other_does(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.options += ["--disk-mib", "20"]
    agent.start()
    small, unbounded = platform.place(SMALL, bounds_disk=True), platform.place(LARGE)
    large = platform.allocations[platform.place(LARGE, bounds_disk=True)]
    eventually(lambda: large.end and large.finish, "its end", 30.0)
    assert large.end is not None
    assert (large.end.reason, large.end.exit_code) == (EndReason.DISK_EXCEEDED, 0)
    assert large.end.detail.startswith("it takes more of the node's disk than the 20 MiB that a job may: ")
    assert large.text.endswith("saved\n")
    # Of a platform of before, which does not know the reason, none is stopped.
    assert [platform.allocations[one].end for one in (small, unbounded)] == [None, None]


def test_the_agent_tells_what_is_left_of_its_disk(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    told = eventually(
        lambda: [one.host for one in platform.syncs if one.host is not None and one.host.disk_full is not None],
        "a disk",
    )
    assert told[0].disk_mib is not None
    assert told[0].disk_free_mib is not None
    assert 0 < told[0].disk_free_mib <= told[0].disk_mib


def test_a_disk_below_the_reserve_that_no_job_fills_stops_nobody_and_is_told_once(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.options += ["--disk-reserve-mib", str(1 << 40)]
    agent.start()
    job = platform.place(SMALL, bounds_disk=True)
    eventually(lambda: [one for one in platform.syncs if one.host is not None and one.host.disk_full], "a full disk")
    beats = len(platform.beats)
    eventually(lambda: len(platform.beats) > beats + 5, "more beats")
    events = [event for one in platform.syncs for event in one.health]
    assert [(event.kind, event.gpu_uuid) for event in events] == [("disk_full", None)]
    assert platform.allocations[job].end is None


def test_an_agent_starts_again_on_a_full_disk(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.state.mkdir()
    with small_disk(agent.state, 16, with_content=False):
        agent.start()
        number = platform.place("echo started; while :; do sleep 0.05; done")
        eventually(lambda: "started" in platform.allocations[number].text, "it runs")
        agent.kill()
        with filled(agent.state):
            agent.start()
            agent.kill()
            # Also where something would have to be written.
            platform.node_name = "of-another-name"
            agent.start()
            beats = len(platform.beats)
            eventually(lambda: len(platform.beats) > beats, "a beat")
            assert list(agent.state.glob("*.new")) == []
        platform.stop(number)
        eventually(lambda: platform.allocations[number].end, "its end")
        agent.end()
