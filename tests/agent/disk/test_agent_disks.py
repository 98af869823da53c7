"""The whole agent with a limit of what its jobs may take of a disk, against a platform that checks every message."""

from __future__ import annotations

from nodeagent.protocol.messages import EndReason
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.faults.disks import filled, small_disk
from tests.waiting import eventually

LARGE = "trap 'echo saved; exit 0' TERM; head -c 30000000 /dev/zero > large; echo filled; while :; do sleep 0.05; done"
SMALL = "head -c 3000000 /dev/zero > small; while :; do sleep 0.05; done"
# A file that cannot be made ends no loop.
STREWING = "while :; do n=$((n + 1)); true > file.$n; done 2> /dev/null"
INODES = 20_000


def test_a_job_beyond_the_limit_saves_its_work_and_ends_and_no_other_does(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.options += ["--disk-mib", "20"]
    agent.start()
    small = platform.place(SMALL)
    large = platform.allocations[platform.place(LARGE)]
    eventually(lambda: large.end and large.finish, "its end", 30.0)
    assert large.end is not None
    assert (large.end.reason, large.end.exit_code) == (EndReason.DISK_EXCEEDED, 0)
    assert large.end.detail.startswith("it takes more of the node's disk than the 20 MiB that a job may: ")
    assert large.text.endswith("saved\n")
    assert platform.allocations[small].end is None


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
    job = platform.place(SMALL)
    eventually(lambda: [one for one in platform.syncs if one.host is not None and one.host.disk_full], "a full disk")
    beats = len(platform.beats)
    eventually(lambda: len(platform.beats) > beats + 5, "more beats")
    events = [event for one in platform.syncs for event in one.health]
    assert [(event.kind, event.gpu_uuid) for event in events] == [("disk_full", None)]
    assert platform.allocations[job].end is None


def test_a_job_that_makes_empty_files_without_end_is_stopped_and_its_neighbour_goes_on(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.state.mkdir()
    with small_disk(agent.state, 64, with_content=False, inodes=INODES):
        agent.start()
        # It takes more bytes than all others, and they are not what the disk is short of.
        number = platform.place(LARGE)
        neighbour = platform.allocations[number]
        eventually(lambda: "filled" in neighbour.text, "it runs", 30.0)
        hog = platform.allocations[platform.place(STREWING)]
        eventually(lambda: hog.end and hog.finish, "its end", 60.0)
        assert hog.end is not None
        assert hog.end.reason is EndReason.DISK_EXCEEDED
        assert hog.end.detail.startswith("the node's disk has no room for more files (inodes), and this job has the")
        assert f"files are free of {INODES} files" in hog.end.detail

        def told() -> list[bool | None]:
            return [one.host.disk_full for one in platform.syncs if one.host is not None]

        # That the disk was full may be told when it has room again, and that it has comes after it.
        eventually(lambda: True in told() and told()[-1] is False, "that there is room again", 30.0)
        [event] = [event for one in platform.syncs for event in one.health]
        assert (event.kind, "no room for more files (inodes): " in event.detail) == ("disk_full", True)
        assert neighbour.end is None
        after = platform.allocations[platform.place("touch file && echo made")]
        eventually(lambda: after.end and after.finish, "the end of the next one", 30.0)
        assert after.text == "made\n"
        platform.stop(number)
        eventually(lambda: neighbour.end and neighbour.finish, "the neighbour's end", 30.0)
        assert neighbour.text.endswith("saved\n")
        agent.end()


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
