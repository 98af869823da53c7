"""Checks of GPUs between jobs, as the platform wants them: one at a time, and never in the way of a job.

A check looks at the GPU as before a start, and then gives it work whose result is known, if there is a way to. When a
claim begins, what runs is stopped at once, whichever GPU the claim is for, and for a moment nothing else is begun:
until the answer to the claim, nobody here knows which GPU a job gets.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable, Dict, Optional, Tuple

from nodeagent.gpu.port import Outcome
from nodeagent.gpu.trial import Stopper
from nodeagent.protocol import MAX_CHECKS, CheckOutcome, CheckResult, WantedCheck
from nodeagent.sampler import Sampler
from nodeagent.workpool import WorkPool

_log = logging.getLogger("nodeagent.checks")

QUIET_S = 10.0
"""So long after a claim began nothing is checked: by then the GPUs of the job are known to be in use."""
_NOBODYS = -1

Work = Callable[[str, Stopper], Optional[Outcome]]


def no_work(uuid: str, stopper: Stopper) -> Optional[Outcome]:
    """Where nobody can give GPUs work, they are looked at only."""
    del uuid, stopper
    return None


class Checks:
    """Carries out checks in the thread of a pool. Its methods may be called from any thread."""

    def __init__(self, *, sampler: Sampler, work: Work, pool: WorkPool, report_soon: Callable[[], None]) -> None:
        self._sampler = sampler
        self._work = work
        self._pool = pool
        self._report_soon = report_soon
        self._mutex = threading.Lock()
        self._taken: Dict[str, int] = {}
        self._quiet_until = float("-inf")
        self._running: Optional[Stopper] = None

    def want(self, wanted: Tuple[WantedCheck, ...]) -> None:
        """Do those of the wanted checks that were not taken on yet."""
        for check in wanted[:MAX_CHECKS]:
            with self._mutex:
                if self._taken.get(check.gpu_uuid, 0) >= check.number:
                    continue
                self._taken[check.gpu_uuid] = check.number
            self._submit(check, 0.0)

    def make_way(self) -> None:
        """A job is about to start: stop what runs, and begin nothing for a moment."""
        with self._mutex:
            self._quiet_until = time.monotonic() + QUIET_S
            if self._running is not None:
                self._running.stop()

    def _submit(self, check: WantedCheck, delay_s: float) -> None:
        self._pool.submit(lambda: self._check(check), delay_s)

    def _check(self, check: WantedCheck) -> None:
        stopper = Stopper()
        with self._mutex:
            wait_s = self._quiet_until - time.monotonic()
            if wait_s <= 0:
                self._running = stopper
        if wait_s > 0:
            self._submit(check, wait_s)
            return
        began = time.monotonic()
        try:
            result = self._result(check, stopper)
        finally:
            with self._mutex:
                self._running = None
        _log.info("check of GPU %s: %s %s", check.gpu_uuid, result[0].value, result[1].detail)
        outcome, work = result
        self._sampler.checked(
            CheckResult(
                number=check.number,
                gpu_uuid=check.gpu_uuid,
                outcome=outcome,
                how=work.how,
                detail=work.detail[:500],
                duration_s=round(time.monotonic() - began, 3),
                tflops=work.tflops,
                gb_s=work.gb_s,
            )
        )
        self._report_soon()

    def _result(self, check: WantedCheck, stopper: Stopper) -> Tuple[CheckOutcome, Outcome]:
        """What came of it. Of a check that a job ended nothing is known, whatever it has found by then."""
        uuid = check.gpu_uuid
        if self._sampler.holds(uuid):
            return CheckOutcome.STOPPED, Outcome(False, "a job has it")
        found = self._sampler.faults(_NOBODYS, (uuid,))
        work = Outcome(False, found[0][1], how="nvml") if found else self._work(uuid, stopper)
        if stopper.is_stopped or self._sampler.holds(uuid):
            return CheckOutcome.STOPPED, Outcome(False, "a job came first")
        if work is None:
            work = Outcome(True, how="nvml")
        if work.is_right:
            return CheckOutcome.PASSED, work
        return CheckOutcome.FAILED, Outcome(False, work.detail or "its work is wrong", work.tflops, work.gb_s, work.how)
