"""Histories of the agents' protocol that are worth a name, told by the same simulation as the machine's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from muster.agents import services
from muster.dispatch import reaper
from muster.dispatch.eviction import eviction_deadline
from muster.execution import reports
from muster.fleet.leases import Registration, register
from muster.fleet.models import Node, NodeLease
from muster.jobs.attempt import attempts
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from nodeagent.protocol.messages import EXIT_SUPERSEDED, EXIT_UNAUTHORIZED
from nodeagent.runtime.port import Phase
from scheduler.model.reasons import Reason
from tests.db.stories import rank_of
from tests.protocol.conftest import Telling
from tests.protocol.network import Fate
from tests.protocol.story import REAP_EVERY_S, TIMERS, Server, Story

GRACE_S = 4.0
FENCE_S = TIMERS["stop_after_s"] + GRACE_S + TIMERS["fence_margin_s"]


def running(story: Story, *, after_s: float = 2.0, **spec: Any) -> tuple[int, Server]:
    """A job that runs after so long, and where its first rank does."""
    job_id = story.submit(**spec)
    story.cycle()
    story.advance(after_s)
    return job_id, next(server for server in story.servers if server.machine.live())


def state_of(job_id: int) -> tuple[str, str]:
    job = Job.objects.get(pk=job_id)
    return job.state, job.reason


def end_reasons() -> list[str]:
    return list(Allocation.objects.order_by("pk").values_list("end_reason", flat=True))


def watch(story: Story, seconds: float) -> None:
    """Let time pass under the eyes of the oath."""
    for _ in range(int(seconds)):
        story.advance(1.0)
        story.check()


def boot_twice(story: Story, server: Server) -> None:
    """The first boot's registration is on its way for so long that the second's comes before it."""
    story.disturb(server, "register", Fate.REQUEST_LATE, 20.0)
    for _ in range(2):
        story.reboot(server, disk_keeps_marks=True)
        story.start_agent(server)
        story.advance(0.5)


def boot_and_forget(story: Story, server: Server) -> None:
    """The machine boots again, and of what was on its disk nothing is left."""
    story.reboot(server, disk_keeps_marks=False)
    server.journal.unlink()
    story.start_agent(server)


def epoch_of(server: Server) -> int:
    return NodeLease.objects.get(pk=server.node.pk).epoch


def open_claims() -> int:
    return GpuClaim.objects.filter(released_at=None).count()


def test_a_gang_runs_and_succeeds(telling: Telling) -> None:
    with telling() as story:
        job_id, _ = running(story, nodes=2)
        assert len(story.ledger.alive()) == 2
        for server in story.servers:
            for allocation_id in server.machine.live():
                server.machine.finish(allocation_id, 0)
        story.advance(2.0)
        story.check()
        assert state_of(job_id) == ("succeeded", "completed")
        story.settle()


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("way", [(True, True), (True, False), (False, True)])
def test_a_node_that_is_cut_off_has_stopped_its_job_when_its_gpus_are_free(
    telling: Telling, way: tuple[bool, bool], stubborn: bool
) -> None:
    # The machine's clock is slow and the platform's fast: as little time between the two ends as there can be.
    with telling((1.01, 0.99, 0.99, 0.99)) as story:
        job_id, server = running(story, stubborn=stubborn)
        story.cut(server, requests=way[0], answers=way[1])
        while state_of(job_id)[0] == "active":
            story.advance(0.5)
            story.check()
        assert story.ledger.alive() == []
        assert state_of(job_id)[1] in {"node_lost", "agent_stopped"}
        story.settle()


@pytest.mark.parametrize("starts", ["before", "meanwhile", "after"])
def test_hours_that_were_granted_and_taken_back_start_nothing_twice(telling: Telling, starts: str) -> None:
    # The lease that a shim knows is looked at again only when it has run out, and the agent's file says the old time
    # until a beat is answered.
    with telling((1.01, 0.99, 0.99, 0.99)) as story:
        found = running(story) if starts == "before" else None
        story.stop_after(20 * TIMERS["stop_after_s"])
        story.advance(TIMERS["beat_s"] + 1.0)
        found = running(story) if starts == "meanwhile" else found
        story.stop_after(TIMERS["stop_after_s"])
        job_id, server = found or running(story, after_s=1.0)
        story.cut(server, requests=True, answers=True)
        while state_of(job_id)[0] == "active":
            story.advance(4.0)
            story.check()
        assert story.ledger.alive() == []
        story.settle()


def test_a_job_that_is_kept_outlives_the_fence_and_frees_its_gpus_by_its_own_end(telling: Telling) -> None:
    with telling() as story:
        job_id, server = running(story, on_disconnect="keep")
        story.cut(server, requests=True, answers=True)
        story.advance(4 * FENCE_S)
        assert (open_claims(), len(story.ledger.alive())) == (1, 1)
        server.machine.finish(server.machine.live()[0], 0)
        story.advance(FENCE_S)
        assert open_claims() == 1  # it has ended, but the report could not arrive
        server.link.mend()
        story.advance(30.0)
        story.check()
        assert (open_claims(), state_of(job_id)) == (0, ("succeeded", "completed"))
        story.settle()


def test_what_runs_on_a_node_that_was_wrongly_declared_gone_is_stopped_when_it_is_heard_again(
    telling: Telling,
) -> None:
    with telling() as story:
        job_id, server = running(story, on_disconnect="keep")
        story.cut(server, requests=True, answers=True)
        story.advance(2 * FENCE_S)
        story.administer(server, "declare gone")
        story.advance(REAP_EVERY_S + 1.0)
        assert state_of(job_id) == ("queued", "node_lost")
        story.cycle()
        story.advance(2.0)
        second = next(other for other in story.servers if other is not server and other.machine.live())
        assert len(story.ledger.alive()) == 2  # the word was wrong
        server.link.mend()
        story.advance(TIMERS["beat_s"] + TIMERS["orphan_grace_s"] + GRACE_S + 30.0)
        assert [row.machine for row in story.ledger.alive()] == [second.machine.label]
        assert (server.machine.folders, open_claims()) == ({}, 1)
        assert state_of(job_id)[0] == "active"
        second.machine.finish(second.machine.live()[0], 0)
        story.advance(2.0)
        story.check()
        assert state_of(job_id) == ("succeeded", "completed")
        story.settle()


def test_a_job_that_is_kept_frees_its_gpus_when_its_machine_boots_again(telling: Telling) -> None:
    with telling() as story:
        job_id, server = running(story, on_disconnect="keep")
        story.cut(server, requests=True, answers=True)
        story.advance(2 * FENCE_S)
        story.reboot(server, disk_keeps_marks=True)
        story.start_agent(server)
        story.advance(FENCE_S)
        assert open_claims() == 1  # the platform does not know yet that it has rebooted
        server.link.mend()
        story.advance(31.0)
        story.check()
        assert (open_claims(), state_of(job_id)) == (0, ("queued", "node_rebooted"))
        story.settle()


def test_an_intent_without_a_trace_of_a_start_is_never_started(telling: Telling) -> None:
    with telling() as story:
        story.submit()
        story.cycle()
        server = None
        while server is None:
            story.advance(0.01)
            server = next((one for one in story.servers if b"intent" in one.journal.read_bytes()), None)
        assert server.machine.allocations() == ()
        story.crash_agent(server)
        story.start_agent(server)
        story.advance(2.0)
        assert (end_reasons(), story.ledger.rows) == (["never_started"], [])
        story.settle()


def test_a_shim_that_comes_when_it_is_given_up_ends_neither_its_job_nor_its_agent(telling: Telling) -> None:
    with telling() as story:
        for server in story.servers:
            server.machine.fork_s, server.machine.settle_s = 11.5, 2.0  # agents are patient for ten seconds
        job_id, server = running(story, after_s=20.0)
        story.advance(5.0)
        story.check()
        assert (state_of(job_id)[0], len(story.ledger.alive())) == ("active", 1)
        server.machine.finish(server.machine.live()[0], 0)
        story.advance(5.0)
        story.check()
        assert (state_of(job_id), len(story.ledger.rows)) == (("succeeded", "completed"), 1)
        story.settle()


@pytest.mark.parametrize("agent_sees_it", [True, False])
def test_what_is_gone_without_a_status_ends_as_unknown(telling: Telling, agent_sees_it: bool) -> None:
    with telling() as story:
        job_id, server = running(story)
        if not agent_sees_it:
            story.crash_agent(server)
        server.machine.lose_shim(server.machine.live()[0])
        story.start_agent(server)
        story.advance(2.0)
        story.check()
        assert (end_reasons(), state_of(job_id)) == (["unknown"], ("queued", "unknown"))
        story.settle()


def test_an_attempt_that_nobody_claims_in_time_is_not_claimed_and_a_claim_that_comes_late_starts_nothing(
    telling: Telling,
) -> None:
    with telling() as story:
        for server in story.servers:
            story.disturb(server, "claim", Fate.REQUEST_LATE, 29.0)
        job_id = story.submit()
        story.cycle()
        story.advance(28.0)
        assert Attempt.objects.get().reason == "not_claimed"
        story.advance(10.0)
        story.check()
        assert (story.ledger.rows, state_of(job_id)[0]) == ([], "queued")
        story.settle()


def test_a_claim_whose_answer_was_lost_is_answered_again_and_starts_once(telling: Telling) -> None:
    with telling() as story:
        for server in story.servers:
            story.disturb(server, "claim", Fate.ANSWER_LOST, 0.0)
            story.disturb(server, "claim", Fate.TWICE, 5.0)
        story.submit()
        story.cycle()
        story.advance(45.0)
        story.check()
        assert len(story.ledger.rows) == 1
        story.settle()


def test_a_claim_that_is_refused_because_its_attempt_stops_holds_no_gpu(telling: Telling) -> None:
    with telling() as story:
        for server in story.servers:
            story.disturb(server, "claim", Fate.ANSWER_LOST, 0.0)  # so it is this boot's, and the agent does not know
            story.disturb(server, "claim", Fate.REQUEST_LATE, 5.0)
        job_id = story.submit()
        story.cycle()
        while all(server.link.fates["claim"] for server in story.servers):
            story.advance(0.1)
        story.cancel(job_id)
        story.advance(10.0)
        story.check()
        assert (state_of(job_id)[0], end_reasons(), open_claims()) == ("cancelled", ["never_started"], 0)
        story.settle()


def test_an_agent_that_another_has_superseded_exits_and_leaves_its_job_alone(telling: Telling) -> None:
    with telling() as story:
        _, server = running(story)
        first, asked = server.run, server.machine.signals
        story.copy_machine(server)
        story.advance(10.0)
        assert first is not None
        assert (first.status, server.machine.signals) == (EXIT_SUPERSEDED, asked)
        assert len(server.machine.live()) == 1
        story.advance(FENCE_S)
        assert server.machine.live() == []  # by its lease, which is no longer renewed
        story.settle()


def test_what_runs_of_an_attempt_that_the_platform_gave_up_is_stopped(telling: Telling) -> None:
    with telling() as story:
        job_id, server = running(story)
        story.copy_machine(server)  # its other boot is taken for proof that the first one's processes are gone
        story.advance(10.0)
        (copy, run) = server.copies[0]
        run.kill()
        copy.reboot(disk_keeps_marks=True)
        assert server.machine.live()
        assert state_of(job_id)[0] == "queued"
        story.start_agent(server)
        story.advance(2.0 + TIMERS["orphan_grace_s"] + GRACE_S)
        assert server.machine.live() == []
        story.settle()


def test_the_agent_of_a_retired_node_is_sent_away(telling: Telling) -> None:
    with telling() as story:
        server = story.servers[0]
        story.administer(server, "cordon")
        story.administer(server, "retire")
        story.advance(2 * TIMERS["beat_s"])
        story.check()
        assert server.run is not None
        assert server.run.status == EXIT_UNAUTHORIZED
        story.settle()


def test_an_adopted_job_ends_with_its_own_exit_code(telling: Telling) -> None:
    with telling() as story:
        job_id, server = running(story, retry={"max": 0})
        allocation_id = server.machine.live()[0]
        story.crash_agent(server)
        story.advance(5.0)
        story.start_agent(server)
        story.advance(2.0)
        assert server.machine.observe(allocation_id).phase is Phase.RUNNING
        server.machine.finish(allocation_id, 7)
        story.advance(2.0)
        story.check()
        assert (state_of(job_id), Job.objects.get(pk=job_id).exit_code) == (("failed", "exit_nonzero"), 7)
        story.settle()


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("stubborn", [False, True])
def test_what_a_lost_state_folder_knew_of_starts_nowhere_else_before_it_has_ended(
    telling: Telling, stubborn: bool, cancelled: bool
) -> None:
    with telling((1.01, 0.99, 0.99, 0.99)) as story:
        job_id, server = running(story, stubborn=stubborn)
        story.lose_state(server)
        story.start_agent(server)
        if cancelled:
            story.cancel(job_id)
        story.advance(TIMERS["stop_after_s"] / 2)
        story.cycle()
        assert (open_claims(), len(story.ledger.alive())) == (1, 1)
        while Attempt.objects.latest("number").number == 1 and state_of(job_id)[0] == "active":
            story.advance(0.5)
            story.check()
        assert story.ledger.alive() == []
        assert state_of(job_id)[0] == ("cancelled" if cancelled else "queued")
        # The agent that came in its place was there all the time, and takes new jobs.
        assert server.run is not None
        assert server.run.status is None
        story.settle()


def test_a_registration_of_an_earlier_boot_that_comes_late_frees_nothing(telling: Telling) -> None:
    with telling() as story:
        for server in story.servers:
            boot_twice(story, server)
        running(story)
        watch(story, 30.0)
        assert [server.run.status for server in story.servers if server.run] == [None, None, None]
        story.settle()


def test_a_registration_of_an_earlier_run_that_comes_late_supersedes_nobody(telling: Telling) -> None:
    with telling() as story:
        server = story.servers[0]
        story.disturb(server, "register", Fate.REQUEST_LATE, 20.0)
        for _ in range(2):
            story.crash_agent(server)
            story.start_agent(server)
            story.advance(0.5)
        watch(story, 30.0)
        assert server.run is not None
        assert (server.run.status, epoch_of(server)) == (None, 3)
        story.settle()


def test_a_hello_of_an_earlier_boot_that_comes_late_costs_another_try_and_no_more(telling: Telling) -> None:
    with telling() as story:
        server = story.servers[0]
        story.disturb(server, "hello", Fate.REQUEST_LATE, 2.0)
        story.disturb(server, "register", Fate.REQUEST_LATE, 5.0)
        for _ in range(2):
            story.reboot(server, disk_keeps_marks=True)
            story.start_agent(server)
            story.advance(0.5)
        watch(story, 30.0)
        assert server.run is not None
        assert (server.run.status, epoch_of(server)) == (None, 3)
        story.settle()


def test_a_registration_that_comes_twice_counts_once(telling: Telling) -> None:
    with telling() as story:
        server = story.servers[0]
        story.crash_agent(server)
        story.disturb(server, "register", Fate.TWICE, 12.0)
        story.start_agent(server)
        watch(story, 30.0)
        assert server.run is not None
        assert (server.run.status, epoch_of(server)) == (None, 3)
        story.settle()


class TestTheSimulationNotices:
    """The worth of the histories: each of these breaks one rule, and must be found out."""

    def test_a_fence_that_comes_too_early(self, telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reaper, "eviction_deadline", lambda **told: told["away_since"] + timedelta(seconds=10))
        with telling() as story:
            _, server = running(story)
            story.cut(server, requests=True, answers=True)
            with pytest.raises(AssertionError, match="have ended, and their processes have not"):
                watch(story, FENCE_S)

    @pytest.mark.parametrize("forgotten", ["the margin", "the grace"])
    def test_a_fence_that_forgets(self, telling: Telling, monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
        less = timedelta(seconds={"the margin": TIMERS["fence_margin_s"], "the grace": GRACE_S}[forgotten])
        monkeypatch.setattr(reaper, "eviction_deadline", lambda **told: eviction_deadline(**told) - less)
        # Within what clocks may differ by, and with a job that takes all of its grace.
        with telling((1.01, 0.99, 0.99, 0.99)) as story:
            _, server = running(story, stubborn=True)
            story.cut(server, requests=True, answers=True)
            with pytest.raises(AssertionError, match="have ended, and their processes have not"):
                watch(story, FENCE_S + 5.0)

    def test_a_claim_that_any_boot_may_make(self, telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
        """By itself this fault has no effect: an agent that registers after a boot finds nothing of the one before."""

        def claim(rank: Rank, *, claimant: Claimant) -> Allocation:
            holder = Allocation.objects.get(pk=rank.allocation_id).boot_id
            return attempts.claim_allocation(rank, claimant=replace(claimant, boot_id=holder or claimant.boot_id))

        monkeypatch.setattr(services, "_let_go_of_other_boots", lambda node, boot_id: None)
        with telling() as story:
            _, server = running(story)
            boot_and_forget(story, server)
            watch(story, 10.0)
            assert len(story.ledger.rows) == 1  # it is refused
        monkeypatch.setattr(reports, "claim", claim)
        with telling() as story:
            _, server = running(story)
            boot_and_forget(story, server)
            with pytest.raises(AssertionError, match="was started twice"):
                watch(story, 10.0)

    def test_a_fence_that_forgets_those_who_are_kept(self, telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
        with telling() as story:
            _, server = running(story, on_disconnect="keep")
            Job.objects.update(spec={**Job.objects.get().spec, "on_disconnect": "stop"})
            story.cut(server, requests=True, answers=True)
            with pytest.raises(AssertionError, match="have ended, and their processes have not"):
                watch(story, FENCE_S)

    def test_a_nonce_that_nobody_looks_at(self, telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
        def register_any(**given: Any) -> Registration:
            Node.objects.update(nonce=given["nonce"])
            return register(**given)

        monkeypatch.setattr(services, "register", register_any)
        with telling() as story:
            for server in story.servers:
                boot_twice(story, server)
            running(story)
            with pytest.raises(AssertionError, match=r"are free, and it still runs|have ended, and their processes"):
                watch(story, 30.0)

    @pytest.mark.parametrize("cancelled", [False, True])
    def test_a_state_folder_that_nobody_tells_from_another(
        self, telling: Telling, monkeypatch: pytest.MonkeyPatch, cancelled: bool
    ) -> None:
        monkeypatch.setattr(services, "_state_of", lambda state_id: "")
        with telling() as story:
            job_id, server = running(story)
            story.lose_state(server)
            if cancelled:
                story.cancel(job_id)
            story.start_agent(server)
            with pytest.raises(AssertionError, match=r"was started twice|and it still runs|and their processes"):
                watch(story, 30.0)

    def test_a_lease_that_counts_for_every_folder(self, telling: Telling, monkeypatch: pytest.MonkeyPatch) -> None:
        with telling() as story:
            _, server = running(story)
            (folder,) = server.machine.folders.values()
            story.lose_state(server)
            folder.taken_away = False
            story.start_agent(server)
            with pytest.raises(AssertionError, match="have ended, and their processes have not"):
                watch(story, 2 * FENCE_S)

    def test_an_end_that_is_invented(self, telling: Telling) -> None:
        with telling() as story:
            running(story)
            allocation = Allocation.objects.get()
            attempts.end_allocation(
                rank_of(allocation),
                claimant=Claimant(allocation.boot_id, allocation.state_id),
                end=attempts.End(reason=Reason.COMPLETED, exit_code=0),
            )
            with pytest.raises(AssertionError, match="have ended, and their processes have not"):
                story.check()
