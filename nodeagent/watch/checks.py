"""Checks of GPUs between jobs, on request of the platform: one at a time, and never in the way of a job.

A check looks at the GPU as before a start of a job, then runs the GPU self-test if this node can. When a claim begins,
the running check is stopped at once and no other starts for `QUIET_S`, whichever GPU is being checked: the agent learns
from the answer to the claim which GPUs the job gets.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable, Dict, Optional, Tuple

from nodeagent.gpu.port import SelfTestResult
from nodeagent.gpu.self_test import Stopper
from nodeagent.protocol.messages import MAX_CHECKS, CheckOutcome, CheckResult, WantedCheck
from nodeagent.system.workpool import WorkPool
from nodeagent.watch.sampler import Sampler

_log = logging.getLogger("nodeagent.watch.checks")

QUIET_S = 10.0
"""No check starts within this time after a claim began; after it, the GPUs of the job are known to be in use."""
_NO_ALLOCATION = -1

RunSelfTest = Callable[[str, Stopper], Optional[SelfTestResult]]


def no_self_test(uuid: str, stopper: Stopper) -> Optional[SelfTestResult]:
    """For a node without a self-test: a check only reads the state of the GPU."""
    del uuid, stopper
    return None


class Checks:
    """Carries out checks in the thread of a pool. Its methods may be called from any thread."""

    def __init__(
        self, *, sampler: Sampler, self_test: RunSelfTest, pool: WorkPool, report_soon: Callable[[], None]
    ) -> None:
        self._sampler = sampler
        self._self_test = self_test
        self._pool = pool
        self._report_soon = report_soon
        self._mutex = threading.Lock()
        self._taken: Dict[str, int] = {}
        self._quiet_until = float("-inf")
        self._running: Optional[Stopper] = None

    def want(self, wanted: Tuple[WantedCheck, ...]) -> None:
        """Queue the requested checks that were not accepted before."""
        for check in wanted[:MAX_CHECKS]:
            with self._mutex:
                if self._taken.get(check.gpu_uuid, 0) >= check.number:
                    continue
                self._taken[check.gpu_uuid] = check.number
            self._submit(check, 0.0)

    def make_way(self) -> None:
        """A job is about to start: stop the running check, and start none for `QUIET_S`."""
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
        outcome, test = result
        self._sampler.checked(
            CheckResult(
                number=check.number,
                gpu_uuid=check.gpu_uuid,
                outcome=outcome,
                how=test.how,
                detail=test.detail[:500],
                duration_s=round(time.monotonic() - began, 3),
                tflops=test.tflops,
                gb_s=test.gb_s,
            )
        )
        self._report_soon()

    def _result(self, check: WantedCheck, stopper: Stopper) -> Tuple[CheckOutcome, SelfTestResult]:
        """The outcome of a check; one that a job interrupted is `stopped`, whatever it had found by then."""
        uuid = check.gpu_uuid
        if self._sampler.holds(uuid):
            return CheckOutcome.STOPPED, SelfTestResult(False, "a job has it")
        found = self._sampler.faults(_NO_ALLOCATION, (uuid,))
        test = SelfTestResult(False, found[0][1], how="nvml") if found else self._self_test(uuid, stopper)
        if stopper.is_stopped or self._sampler.holds(uuid):
            return CheckOutcome.STOPPED, SelfTestResult(False, "a job came first")
        if test is None:
            test = SelfTestResult(True, how="nvml")
        if test.is_right:
            return CheckOutcome.PASSED, test
        detail = test.detail or "the self-test gave a wrong result"
        return CheckOutcome.FAILED, SelfTestResult(False, detail, test.tflops, test.gb_s, test.how)
