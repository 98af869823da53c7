"""Two plug-ins from outside on the real stack: an operator chooses them for a pool, and its jobs run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local import processes
from tests.e2e.demo import Demo, new_demo, running, shell_of
from tests.faults.cluster import until
from tests.faults.shell import Shell
from tests.plugins.installed import install_both

pytestmark = pytest.mark.timeout(300)

_CHOOSE = """
from muster.dispatch.config.settings import change_settings
from muster.fleet.models import Node, Pool
pool = Pool.objects.get(name="main")
names = list(Node.objects.filter(pool=pool).order_by("-name").values_list("name", flat=True))
owners = [{"vc": "vision", "nodes": names[:1]}, {"vc": "speech", "nodes": names[1:]}]
change_settings(pool=pool, actor="ops", changes={
    "policy": "maxmin", "policy_params": {"round_s": 5}, "admission": "owners", "admission_params": {"owners": owners},
})
print(names[0])
"""
_READ = """
from muster.dispatch.cycles import replay
from muster.dispatch.models import Cycle
from muster.jobs.models import Allocation
kept = Cycle.objects.filter(plan__isnull=False, placed__gt=0, config__policy="maxmin").order_by("pk").last()
then, now = replay(kept)
names = Allocation.objects.filter(attempt__job=JOB).values_list("node__name", flat=True)
print(kept.config["admission"], then == now, *names)
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demonstration with the plug-ins on its path."""
    site = install_both(tmp_path_factory.mktemp("site"))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(site)
    try:
        with new_demo() as demo, running(demo):
            yield demo
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def shell(demo: Demo) -> Iterator[Shell]:
    """A process of the platform, with the plug-ins too."""
    with shell_of(demo) as shell:
        yield shell


def test_jobs_run_by_both_plug_ins_and_their_cycle_replays(demo: Demo, shell: Shell) -> None:
    assert Path(os.environ["PYTHONPATH"], "maxmin.py").is_file()
    (owned,) = shell.run(_CHOOSE).split()
    with demo.client("ada") as client:
        spec = {"command": "echo done", "gpus": 1, "vc": "vision"}
        assert client.dry_run(spec)["feasible"]
        job = client.submit(spec)
        until(lambda: client.job(job["id"])["state"] == "succeeded", "the job has ended", 60)
    admission, same, *nodes = shell.run(_READ.replace("JOB", str(job["id"]))).split()
    assert (admission, same) == ("owners", "True")
    assert nodes == [owned]


_LANE = """
from muster.dispatch.models import Lane
from muster.fleet.models import Pool
Lane.objects.update_or_create(pool=Pool.objects.get(name="main"), defaults={"mode": "on"})
"""
_CARRIED = """
from muster.dispatch.cycles import replay
from muster.dispatch.models import Cycle
kept = Cycle.objects.filter(target__isnull=False, plan__isnull=False).order_by("-pk").first()
if kept is not None:
    then, now = replay(kept)
    print(kept.config["policy"], kept.target.config["policy"], then == now)
"""


def lane_pid() -> int | None:
    """The process of the demonstration's only lane."""
    for pid in processes.descendants(os.getpid()):
        words = processes.command_line(pid)
        if "lane" in words and "django" in words:
            return pid
    return None


def test_a_lane_solves_in_a_process_of_its_own_which_is_started_again_when_it_is_killed(
    demo: Demo, shell: Shell
) -> None:
    shell.run(_CHOOSE)
    shell.run(_LANE)
    first = until(lane_pid, "the lane has a process", 30)
    with demo.client("ada") as client:

        def ends() -> None:
            job = client.submit({"command": "sleep 2", "gpus": 1, "vc": "vision"})
            until(lambda: client.job(job["id"])["state"] == "succeeded", "the job has ended", 60)

        ends()
        os.kill(first, signal.SIGKILL)
        ends()  # by what fills the pool meanwhile
        second = until(lambda: (lane_pid() or first) != first and lane_pid(), "the lane has another process", 30)
        assert second != first
        for _ in range(10):
            ends()
            carried = shell.run(_CARRIED).split()
            if carried:
                break  # a slow machine may fill the pool before the lane has solved
    assert carried == ["fifo", "maxmin", "True"]
