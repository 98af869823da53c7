"""Random histories of the agents' protocol, from Hypothesis, with the real platform and agents.

`make faults` tells many more and longer ones.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    get_state_machine_test,
    initialize,
    invariant,
    precondition,
    rule,
)

from muster.dispatch import reaper
from tests.profiles import IS_LONG, examples
from tests.protocol.conftest import Telling
from tests.protocol.network import Fate
from tests.protocol.story import Server, Story

# A history of chance that has failed is told again by this variable.
SEED = "MUSTER_PROTOCOL_SEED"
PROFILE = settings(
    max_examples=150 if IS_LONG else examples(6),
    stateful_step_count=50 if IS_LONG else 20,
    suppress_health_check=list(HealthCheck),
)

pytestmark = pytest.mark.timeout(3600 if IS_LONG else 300)


@pytest.fixture
def silence() -> Iterator[None]:
    """Turn logging off: a record kept for pytest's report keeps its error, and with it the whole history."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


servers = st.integers(0, 2)
rates = st.sampled_from([1.0, 0.99, 1.01])
some = st.integers(0, 5)
planners = st.integers(0, 1)
KINDS = ("beat", "sync", "claim", "end", "hello", "register", "log:finish")


class Machine(RuleBasedStateMachine):
    """Happenings, in any order."""

    telling: Telling
    story: Story

    @initialize(platform=rates, machines=st.tuples(rates, rates, rates))
    def begin(self, platform: float, machines: tuple[float, ...]) -> None:
        self._block: AbstractContextManager[Story] = self.telling((platform, *machines))
        self.story = self._block.__enter__()

    def server(self, number: int) -> Server:
        return self.story.servers[number]

    def job(self, number: int) -> int:
        return self.story.jobs[-1 - number % len(self.story.jobs)]

    @property
    def has_jobs(self) -> bool:
        return bool(self.story.jobs)

    @rule(
        gpus=st.integers(1, 2),
        nodes=st.integers(1, 2),
        keep=st.booleans(),
        stubborn=st.booleans(),
        limited=st.booleans(),
    )
    def submit_and_place(self, gpus: int, nodes: int, keep: bool, stubborn: bool, limited: bool) -> None:
        spec: dict[str, object] = {"gpus": gpus, "nodes": nodes, "on_disconnect": "keep" if keep else "stop"}
        if limited:
            spec["time"] = "30s"
        self.story.submit(stubborn=stubborn, **spec)
        self.story.cycle()

    @rule()
    def cycle(self) -> None:
        self.story.cycle()

    @rule(which=planners, gpus=st.sampled_from([1, 1, 2]), nodes=st.sampled_from([1, 1, 2]))
    def submit_to_a_planner(self, which: int, gpus: int, nodes: int) -> None:
        self.story.submit(vc=self.story.vcs[which], gpus=gpus, nodes=nodes)

    @rule(which=planners)
    def a_planner_decides(self, which: int) -> None:
        self.story.decide(which)

    @rule(which=planners)
    def a_planner_carries_out(self, which: int) -> None:
        self.story.carry_out(which)

    @rule(gpus=st.sampled_from([1, 2]), order=st.permutations([0, 1]))
    def both_planners_decide_and_then_carry_out(self, gpus: int, order: list[int]) -> None:
        """Several happenings in one: both want the same GPUs."""
        for which in order:
            self.story.submit(vc=self.story.vcs[which], gpus=gpus)
        for which in (0, 1):
            self.story.decide(which)
        for which in order:
            self.story.carry_out(which)

    @rule(seconds=st.sampled_from([0.02, 0.06, 0.12, 0.3, 1.0, 4.0]))
    def a_moment_passes(self, seconds: float) -> None:
        self.story.advance(seconds)

    @rule(seconds=st.sampled_from([12.0, 30.0, 55.0]))
    def time_passes(self, seconds: float) -> None:
        self.story.advance(seconds)

    @rule(number=servers, which=some, code=st.sampled_from([0, 0, 3]))
    def a_job_ends(self, number: int, which: int, code: int) -> None:
        live = self.server(number).machine.live()
        if live:
            self.server(number).machine.finish(live[which % len(live)], code)

    @rule(number=servers, which=some)
    def a_shim_is_killed(self, number: int, which: int) -> None:
        live = self.server(number).machine.live()
        if live:
            self.server(number).machine.lose_shim(live[which % len(live)])

    @precondition(lambda self: self.has_jobs)
    @rule(which=some)
    def cancel(self, which: int) -> None:
        self.story.cancel(self.job(which))

    @precondition(lambda self: self.has_jobs)
    @rule(which=some)
    def preempt(self, which: int) -> None:
        self.story.preempt(self.job(which))

    @rule(
        number=servers,
        kind=st.sampled_from(KINDS),
        fate=st.sampled_from(Fate),
        delay_s=st.sampled_from([1.0, 8.0, 45.0]),
    )
    def a_call_is_disturbed(self, number: int, kind: str, fate: Fate, delay_s: float) -> None:
        self.story.disturb(self.server(number), kind, fate, delay_s)

    @rule(number=servers, requests=st.booleans(), answers=st.booleans())
    def the_way_changes(self, number: int, requests: bool, answers: bool) -> None:
        self.story.cut(self.server(number), requests=requests, answers=answers)

    @precondition(lambda self: self.story.platform.is_up)
    @rule(requests=st.booleans(), keep=st.booleans(), stubborn=st.booleans())
    def where_a_job_has_started_falls_silent(self, requests: bool, keep: bool, stubborn: bool) -> None:
        """Several happenings in one: in an order of chance, what the fence is for would hardly ever come up."""
        for server in self.story.servers:
            server.link.mend()
            self.story.start_agent(server)
        self.story.advance(2.0)
        self.submit_and_place(gpus=1, nodes=1, keep=keep, stubborn=stubborn, limited=False)
        self.story.advance(2.0)
        for server in self.story.servers:
            if server.machine.live():
                self.story.cut(server, requests=requests, answers=not requests)
        self.story.advance(60.0)

    @rule(number=servers, lose_journal=st.booleans())
    def an_agent_crashes(self, number: int, lose_journal: bool) -> None:
        self.story.crash_agent(self.server(number), lose_journal=lose_journal)

    @rule(number=servers)
    def a_state_folder_is_taken_away(self, number: int) -> None:
        self.story.lose_state(self.server(number))
        self.story.start_agent(self.server(number))

    @rule(number=servers)
    def an_agent_starts(self, number: int) -> None:
        self.story.start_agent(self.server(number))

    @rule(number=servers, keeps=st.booleans())
    def a_machine_reboots(self, number: int, keeps: bool) -> None:
        self.story.reboot(self.server(number), disk_keeps_marks=keeps)
        self.story.start_agent(self.server(number))

    @rule(number=servers)
    def a_machine_is_copied(self, number: int) -> None:
        if len(self.server(number).copies) < 1:
            self.story.copy_machine(self.server(number))

    @rule(number=servers, what=st.sampled_from(["cordon", "drain", "resume", "resume", "retire"]))
    def an_operator_acts(self, number: int, what: str) -> None:
        self.story.administer(self.server(number), what)

    @rule()
    def the_platform_stops(self) -> None:
        self.story.platform_down()

    @rule()
    def the_platform_is_back(self) -> None:
        self.story.platform_up()

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "story"):
            self.story.check()

    def teardown(self) -> None:
        if not hasattr(self, "story"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.story.settle()
        finally:
            self._block.__exit__(None, None, None)


def tell(telling: Telling, profile: settings, *, with_seed: int | None = None) -> None:
    """Tells histories; those of one seed are always the same."""
    machine = type("Machine", (Machine,), {"telling": staticmethod(telling)})
    told = get_state_machine_test(machine, settings=profile)
    (told if with_seed is None else seed(with_seed)(told))()


def test_no_history_breaks_a_promise(telling: Telling, silence: None) -> None:
    tell(telling, PROFILE)


@pytest.mark.skipif(IS_LONG, reason="all histories of the long form are of chance")
def test_nor_does_one_that_was_never_told(telling: Telling, silence: None) -> None:
    number = int(os.environ.get(SEED) or random.randrange(2**32))
    try:
        tell(telling, settings(PROFILE, max_examples=2, derandomize=False), with_seed=number)
    except BaseException as error:
        error.add_note(f"Told again by {SEED}={number}")
        raise


def test_histories_find_a_fence_that_comes_too_early(
    telling: Telling, silence: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "eviction_deadline", lambda **told: told["away_since"] + timedelta(seconds=30))
    search = settings(
        PROFILE,
        max_examples=40,  # it ends with the first history that breaks a promise
        stateful_step_count=10,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        derandomize=False,
    )
    with pytest.raises(AssertionError, match=r"processes have not|still runs|live on one GPU|of job \d+ live"):
        tell(telling, search, with_seed=4)
