"""One history of a cluster: the real platform, real agents on simulated machines, and what must always hold."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from muster.common.clock import database_now
from muster.common.errors import Conflict, MusterError
from muster.dispatch.config.planners import save_planner
from muster.dispatch.cycles import Decided, carry_out, decide_for, run_cycle
from muster.dispatch.models import Planner
from muster.dispatch.reaper import reap
from muster.fleet.gone import declare_gone
from muster.fleet.leases import tick
from muster.fleet.models import Node, Pool
from muster.fleet.services import cordon_node, drain_node, resume_node, retire_node
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.jobs.services import cancel_job, submit_job
from nodeagent.protocol.messages import EXIT_SUPERSEDED, EXIT_UNAUTHORIZED, OnDisconnect
from scheduler.model.lifecycle import ATTEMPT_TERMINAL, JOB_TERMINAL, AllocationState, AttemptState, NodeAdmin
from scheduler.model.reasons import Reason
from tests.db.stories import World, make_world, unsound
from tests.factories import make_node, make_vc
from tests.protocol.agents import Run
from tests.protocol.kernel import Kernel
from tests.protocol.machine import Folder, Ledger, Machine, Processes
from tests.protocol.network import Fate, Link, Platform

REAP_EVERY_S = 8.0
# Near a fence: one that comes too early by less than this may go unseen.
REAP_AT_FENCES_EVERY_S = 0.5
TIMERS = {
    "beat_s": 8.0,
    "suspect_after_s": 17.0,
    "unreachable_after_s": 25.0,
    "stop_after_s": 40.0,
    "fence_margin_s": 2.0,
    "orphan_grace_s": 6.0,
    "claim_timeout_s": 20.0,
}
SETTLED_WITHIN_S = 400.0
# What an agent reports for a rank that left no exit status.
_NO_WORD = {"", Reason.NODE_LOST, Reason.NODE_REBOOTED, Reason.UNKNOWN, Reason.NOT_CLAIMED}


def make_protocol_world(nodes: int = 3) -> World:
    """A pool with short timers and two planners, and nodes that no agent has spoken for yet."""
    world = make_world(nodes=0, gpus=0, quota=100)
    second = make_vc(world.tenant, world.pool, quotas={"A100": 100})
    planner = Planner(pool=world.pool, name="second", policy="srtf")
    save_planner(planner=planner, virtual_clusters=[second], actor="op")
    Pool.objects.filter(pk=world.pool.pk).update(**TIMERS)
    for number in range(nodes):
        credential = f"credential-that-is-long-enough-{world.pool.pk}-{number}"
        world.nodes.append(make_node(world.pool, gpus=0, credential=credential, health="pending"))
    return world


class Server:
    """A node with its machine, the way to it, and the present run of its agent; `copies` are clones of the machine."""

    def __init__(self, node: Node, machine: Machine, journal: Path) -> None:
        self.node = node
        self.machine = machine
        self.link = Link()
        self.journal = journal
        self.run: Run | None = None
        self.copies: list[tuple[Machine, Run]] = []
        self.was_copied = False
        self.was_declared_gone = False


class Story:
    """Happenings, one method each, and `check` for the invariants."""

    def __init__(self, world: World, folder: Path, rates: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> None:
        self.world = world
        self.folder = folder
        self.kernel = Kernel()
        self.platform = Platform(self.kernel, rates[0])
        self.ledger = Ledger(self.kernel, may_be_two=self._may_be_two)
        self.servers: list[Server] = []
        self.jobs: list[int] = []
        planner = Planner.objects.get(pool=world.pool)
        self.planners: tuple[Planner | None, ...] = (None, planner)
        self.vcs = (world.vc.name, planner.clusters.get().vc.name)
        self.decided: dict[Planner | None, Decided] = {}
        self.ended: dict[int, tuple[str, str]] = {}
        for number, node in enumerate(world.nodes):
            credential = f"credential-that-is-long-enough-{world.pool.pk}-{number}"
            rate = rates[1 + number % (len(rates) - 1)]
            machine = Machine(self.kernel, self.ledger, node.name, credential=credential, rate=rate)
            server = Server(node, machine, folder / f"{node.name}.journal")
            server.journal.unlink(missing_ok=True)
            self.servers.append(server)
            self.start_agent(server)
        self.kernel.at(0.0, self._reap)
        self.advance(1.0)

    def advance(self, seconds: float) -> None:
        """Let time pass everywhere."""
        until = self.kernel.now + seconds
        while self.kernel.now < until:
            self.kernel.advance(min(0.25, until - self.kernel.now))
            if self.platform.changed:
                self.platform.look_at_polls()

    # What users and operators do

    def submit(self, *, stubborn: bool = False, **spec: object) -> int:
        self.platform.set_clock()
        data = {"command": "true", "gpus": 1, "vc": self.world.vc.name, "checkpoint": {"grace": "4s"}, **spec}
        job = submit_job(user=self.world.user, data=data)[0]
        self.jobs.append(job.pk)
        if stubborn:
            for server in self.servers:
                server.machine.stubborn.add(job.pk)
        return job.pk

    def cycle(self) -> None:
        if self.platform.is_up:
            self.platform.set_clock()
            for planner in self.planners:
                run_cycle(self.world.pool.pk, trigger="command", planner_id=planner.pk if planner else None)
            self.platform.changed = True

    def decide(self, which: int) -> None:
        """A planner takes its snapshot and decides."""
        if self.platform.is_up:
            self.platform.set_clock()
            planner = self.planners[which]
            self.decided[planner] = decide_for(self.world.pool, planner, "command")

    def carry_out(self, which: int) -> None:
        """A planner applies what it has decided, however long ago."""
        decided = self.decided.pop(self.planners[which], None)
        if self.platform.is_up and decided is not None:
            self.platform.set_clock()
            carry_out(self.world.pool, self.planners[which], "command", decided)
            self.platform.changed = True

    def cancel(self, job_id: int) -> None:
        with suppress(Conflict):
            self._act(lambda: cancel_job(user=self.world.user, job=Job.objects.get(pk=job_id)))

    def preempt(self, job_id: int) -> None:
        for attempt in Attempt.objects.filter(job_id=job_id).exclude(state__in=ATTEMPT_TERMINAL):
            self._act(
                partial(
                    stop_attempt,
                    attempt_id=attempt.pk,
                    outcome=AttemptState.PREEMPTED,
                    reason=Reason.PREEMPTED,
                    actor="op",
                )
            )

    def stop_after(self, seconds: float) -> None:
        """The operators edit how long an agent without an answer lets its jobs run."""
        self._act(lambda: Pool.objects.filter(pk=self.world.pool.pk).update(stop_after_s=seconds))

    def administer(self, server: Server, what: str) -> None:
        act = {
            "cordon": cordon_node,
            "drain": drain_node,
            "resume": resume_node,
            "retire": retire_node,
            "declare gone": declare_gone,
        }[what]
        with suppress(MusterError):
            self._act(lambda: act(node=Node.objects.get(pk=server.node.pk), reason="work", actor="op"))
            server.was_declared_gone |= what == "declare gone"

    # What befalls machines, agents, network and platform

    def start_agent(self, server: Server) -> None:
        if server.run is None or not server.run.alive:
            server.run = Run(self.kernel, self.platform, server.machine, server.link, server.journal)

    def crash_agent(self, server: Server, *, lose_journal: bool = False) -> None:
        if server.run is not None:
            server.run.kill()
        if lose_journal:
            server.journal.unlink(missing_ok=True)

    def lose_state(self, server: Server) -> None:
        """The state folder is taken away from under an agent; what it has started goes on."""
        self.crash_agent(server, lose_journal=True)
        server.machine.lose_state()

    def reboot(self, server: Server, *, disk_keeps_marks: bool) -> None:
        self.crash_agent(server)
        server.machine.reboot(disk_keeps_marks=disk_keeps_marks)

    def copy_machine(self, server: Server) -> None:
        """A clone of the machine starts: the same disk and credential, another boot, none of the processes."""
        old, number = server.machine, len(server.copies)
        label = f"{old.hostname}-copy-{number}"
        copy = Machine(self.kernel, self.ledger, old.hostname, credential=old.credential, rate=old.rate, label=label)
        copy.booted_at, copy.stubborn, copy.lease = self.kernel.now, old.stubborn, old.lease
        copy.states = old.states
        for allocation_id, one in old.folders.items():
            copy.folders[allocation_id] = Folder(one.spec, one.launched, one.marked, one.status, one.stop)
        journal = server.journal.with_suffix(f".copy-{number}")
        if server.journal.exists():
            shutil.copy(server.journal, journal)
        server.was_copied = True
        server.copies.append((copy, Run(self.kernel, self.platform, copy, server.link, journal)))

    def cut(self, server: Server, *, requests: bool, answers: bool) -> None:
        server.link.requests_pass, server.link.answers_pass = not requests, not answers

    def disturb(self, server: Server, kind: str, fate: Fate, delay_s: float) -> None:
        server.link.fates.setdefault(kind, deque()).append((fate, delay_s))

    def platform_down(self) -> None:
        self.platform.stop()

    def platform_up(self) -> None:
        self.platform.is_up = True

    # What must hold

    def check(self) -> None:
        """Nothing that must never be is, or ever was."""
        assert self.ledger.wrongs == [], "; ".join(self.ledger.wrongs)
        for server in self.servers:
            for run in [server.run, *(run for _, run in server.copies)]:
                assert run is None or run.error is None, repr(run.error)
                assert run is None or run.status in {None, EXIT_SUPERSEDED, EXIT_UNAUTHORIZED}, run.status
        self._check_attempts()
        self._check_allocations()

    def _check_attempts(self) -> None:
        now = {pk: (state, reason) for pk, state, reason in Attempt.objects.values_list("pk", "state", "reason")}
        assert {pk: now.get(pk) for pk in self.ended} == self.ended, "an attempt that had ended has changed"
        self.ended = {pk: one for pk, one in now.items() if one[0] in ATTEMPT_TERMINAL}
        live = [row.spec for row in self.ledger.alive() if not self._is_beyond_knowing(row)]
        left = {spec.fence for spec in live} & set(self.ended)
        assert not left, f"attempts {left} have ended, and their processes have not"

    def _check_allocations(self) -> None:
        fields = ("pk", "end_reason", "exit_code", "node_id", "claimed_at")
        released = Allocation.objects.filter(state=AllocationState.RELEASED).values_list(*fields)
        beyond = {server.node.pk for server in self.servers if server.was_copied or server.was_declared_gone}
        for pk, reason, exit_code, node_id, claimed_at in released:
            if node_id in beyond:
                continue
            rows = self.ledger.of(pk)
            assert all(row.ended is not None for row in rows), f"the GPUs of {pk} are free, and it still runs"
            assert not rows or claimed_at is not None, f"{pk} ran and was never claimed"
            if reason in {Reason.NEVER_STARTED, Reason.NOT_CLAIMED}:
                assert rows == [], f"{pk} is said never to have started"
            if reason == Reason.COMPLETED:
                assert [(row.by_itself, row.code) for row in rows] == [(True, 0)], f"{pk} did not succeed"
            if reason not in _NO_WORD and rows:
                assert exit_code == rows[0].code, f"{pk} ended with {rows[0].code}, not {exit_code}"
            for row in rows:
                if row.by_itself and row.code and reason not in _NO_WORD:
                    assert reason in {Reason.EXIT_NONZERO, Reason.AGENT_STOPPED}, f"{pk} failed, not {reason}"

    def settle(self) -> None:
        """Everything is mended, and after enough time nothing is left over."""
        self.platform_up()
        for server in self.servers:
            server.link.mend()
            for machine, run in server.copies:
                run.kill()
                machine.reboot(disk_keeps_marks=True)
            if any(spec.on_disconnect is OnDisconnect.KEEP for spec in server.machine.taken()):
                self.reboot(server, disk_keeps_marks=True)  # nothing else ends them, or proves that they have ended
            self.start_agent(server)
        self.advance(30.0)
        for job_id in self.jobs:
            self.cancel(job_id)
        # A shim whose state folder is gone has no lease renewed, and stops its job when the one it knew of is over.
        leases = [spec.stop_after_s for server in self.servers for spec in server.machine.taken()]
        for _ in range(int((SETTLED_WITHIN_S + max(leases, default=0.0)) / 10)):
            self.advance(10.0)
            for server in self.servers:  # an agent that another one had superseded, as its supervisor would
                self.start_agent(server)
            if not self._unsettled():
                break
        assert (left := self._unsettled()) == [], left
        self.check()
        assert unsound() == []
        for server in self.servers:
            if Node.objects.get(pk=server.node.pk).admin != NodeAdmin.RETIRED:
                assert server.machine.folders == {}, "an agent has not forgotten what is over"

    def _unsettled(self) -> list[str]:
        left = [
            f"job {pk} {state}" for pk, state in Job.objects.values_list("pk", "state") if state not in JOB_TERMINAL
        ]
        left += [
            f"attempt {pk}" for pk in Attempt.objects.exclude(state__in=ATTEMPT_TERMINAL).values_list("pk", flat=True)
        ]
        left += [f"claim {pk}" for pk in GpuClaim.objects.filter(released_at=None).values_list("pk", flat=True)]
        left += [f"processes of {row.spec.allocation_id} on {row.machine}" for row in self.ledger.alive()]
        return left + [
            f"traces {sorted(server.machine.folders)} on {server.machine.label}"
            for server in self.servers
            if server.machine.folders and Node.objects.get(pk=server.node.pk).admin != NodeAdmin.RETIRED
        ]

    def _act(self, act: Callable[[], object]) -> None:
        if self.platform.is_up:
            self.platform.set_clock()
            act()
            self.platform.changed = True

    def _reap(self) -> None:
        if self.platform.is_up:
            self.platform.set_clock()
            tick("web")
            tick("reaper")  # as the task does that calls the reaper
            reap(Pool.objects.get(pk=self.world.pool.pk))
            self.check()  # now, and not only when the step is over: what is freed too soon may have ended by then
            self.platform.look_at_polls()
        fenced = Attempt.objects.exclude(state__in=ATTEMPT_TERMINAL)
        near = timedelta(seconds=REAP_EVERY_S)
        at_a_fence = fenced.filter(fence_at__lt=database_now() + near, fence_at__gt=database_now() - near).exists()
        self.kernel.at(self.kernel.now + (REAP_AT_FENCES_EVERY_S if at_a_fence else REAP_EVERY_S), self._reap)

    def _may_be_two(self, old: Processes, new: Processes) -> bool:
        """The platform cannot know what the clone of a machine runs; its lease ends that in time.

        Nor what a machine runs that operators declared gone by mistake.
        """
        return self._is_beyond_knowing(old) or self._is_beyond_knowing(new)

    def _is_beyond_knowing(self, row: Processes) -> bool:
        return any(
            server.was_declared_gone or server.was_copied
            for server in self.servers
            if row.machine.startswith(server.machine.label)
        )
