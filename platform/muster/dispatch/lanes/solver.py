"""Solves one decision in a process of its own, so that one that takes too long can be ended without a plan."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Self

from muster.dispatch.lanes.parent import end_with
from muster.dispatch.snapshot.records import packed, plan_of, snapshot_of
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Snapshot
from scheduler.model.codec import from_json, to_json
from scheduler.model.invariants import check
from scheduler.model.plan import Plan

_START_S = 60.0


class SolveError(RuntimeError):
    """A solve without a plan; the message says why."""


class Solver:
    """A process that solves one decision after the other. It is started anew after it was ended or died."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def solve(self, snapshot: Snapshot, config: CycleConfig, *, limit_s: float) -> Plan:
        """The valid plan for the snapshot; `SolveError` if the policy or process failed, or took too long."""
        pipe = self._started()
        try:
            pipe.send((packed(snapshot), to_json(config)))
            if not pipe.poll(limit_s):
                self.end()
                raise SolveError(f"the solve took longer than {limit_s:g} s")
            plan, error = pipe.recv()
        except (EOFError, OSError) as gone:
            self.end()
            raise SolveError("the process of the solve has died") from gone
        if error:
            raise SolveError(error)
        return plan_of(plan)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _started(self) -> Connection:
        if self._process is not None and self._process.is_alive() and self._pipe is not None:
            return self._pipe
        self.end()
        ours, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        if not ours.poll(_START_S) or ours.recv() != "ready":
            self.end()
            raise SolveError("the process of the solve did not start")
        self._pipe = ours
        return ours


def _serve(pipe: Connection, parent: int) -> None:
    """Answer each request with a packed plan or an error; ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent, signal.SIGKILL)
    pipe.send("ready")
    while True:
        try:
            snapshot_data, config_data = pipe.recv()
        except EOFError:
            return
        try:
            snapshot, config = snapshot_of(snapshot_data), from_json(CycleConfig, config_data)
            plan = decide(snapshot, config)
            violations = check(snapshot, plan, compose(config).admission)
            error = f"the plan violates an invariant: {violations[0].message}" if violations else ""
            pipe.send((packed(plan), error))
        except Exception as failure:  # noqa: BLE001 - a plug-in may fail in any way; the lane records how
            pipe.send((b"", f"{type(failure).__name__}: {failure}"))
