"""Two pools on one worker: what a policy that solves for ten seconds costs the jobs of the other pool."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.figures import Series
from bench.live.jobs import first_line, spec_of
from bench.live.stack import ACTOR, Stack, StackError, grant, start_node
from bench.plan import Plan
from muster.dispatch.config.settings import change_settings
from muster.dispatch.models import Lane, Target
from muster.fleet.models import Pool
from muster.fleet.services import create_pool
from muster_client.client import Client

SOLVE_S = 10.0
_NAME, _POLICY = "slow", "bench_slow"
_MODULE = f"""
import time

from scheduler.authoring import CyclePolicy


class Slow(CyclePolicy):
    '''Solves for ten seconds.'''

    def decide(self, cycle):
        time.sleep({SOLVE_S})
        for job in cycle.waiting():
            cycle.place(job)
"""
_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05


def install_policy(home: Path) -> None:
    """Put the slow policy on the path of this process and of all that it starts."""
    site = home / "plugins"
    metadata = site / "bench_slow-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "bench_slow.py").write_text(_MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-slow\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[muster.policies]\n{_POLICY} = bench_slow:Slow\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])


def measure(stack: Stack, plan: Plan) -> Series:
    """Milliseconds from submit to first line: the other pool at rest, its lane solving, and its cycle solving."""
    pool = create_pool(name=_NAME, actor=ACTOR)
    start_node(stack, pool, name=_NAME, gpus=1, change=lambda child: child)
    grant(pool, _NAME, gpus=1)
    Pool.objects.filter(pk=pool.pk).update(policy=_POLICY)
    lane = Lane.objects.create(pool=pool, mode=Lane.Mode.ON)
    series: Series = {"lanes_alone_ms": [], "lanes_beside_ms": [], "lanes_locked_ms": []}
    with Client(stack.url, stack.token) as client:
        _await_target(pool, None)  # its process has started, and solved the empty pool
        for _ in range(plan.solves):
            for _ in range(4):
                series["lanes_alone_ms"].append(first_line(client, spec_of("echo hello")) * 1000)
            series["lanes_beside_ms"] += _beside(client, pool)
        lane.delete()
        for _ in range(plan.solves):
            client.submit(spec_of("true", vc=_NAME))
            series["lanes_locked_ms"].append(first_line(client, spec_of("echo hello")) * 1000)
    change_settings(pool=pool, changes={"policy": "fifo"}, actor=ACTOR)
    return series


def _beside(client: Client, pool: Pool) -> list[float]:
    """First lines of the bench's own pool during one solve of the lane."""
    before = Target.objects.filter(pool=pool).latest("pk").pk
    client.submit(spec_of("sleep 3", vc=_NAME))  # the lane solves what it sees, and it looks twice a second
    begun, found = time.monotonic(), list[float]()
    time.sleep(1.5)
    while time.monotonic() < begun + SOLVE_S - 2:
        found.append(first_line(client, spec_of("echo hello")) * 1000)
    if Target.objects.filter(pool=pool, pk__gt=before).exists():
        raise StackError("the lane had solved before the jobs beside it were measured")
    _await_target(pool, before)
    _await_rest(pool)
    return found


def _await_target(pool: Pool, after: int | None) -> None:
    """Wait for a target that is newer than this one."""
    until = time.monotonic() + _TIMEOUT_S
    while not Target.objects.filter(pool=pool, pk__gt=after or 0).exists():
        if time.monotonic() > until:
            raise StackError("the lane stored no target")
        time.sleep(_LOOK_EVERY_S)


def _await_rest(pool: Pool) -> None:
    """Wait until the lane has solved what the target and the end of its job changed."""
    known, since = -1, time.monotonic()
    while time.monotonic() < since + SOLVE_S + 2:
        targets = Target.objects.filter(pool=pool).count()
        if targets != known:
            known, since = targets, time.monotonic()
        time.sleep(_LOOK_EVERY_S)
