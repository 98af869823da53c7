"""Sweeps: their documents, and the SDK's calls for them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, cast

from muster_client.answers.shapes import JobSpec, JsonObject
from muster_client.calls.transport import Transport, new_idempotency_key

SweepState = Literal["active", "succeeded", "failed", "cancelled"]
SWEEP_STATES: tuple[SweepState, ...] = ("active", "succeeded", "failed", "cancelled")
MAX_PAGE = 200


class BestMember(TypedDict):
    """The member with the best value so far."""

    job: int
    member: int
    params: dict[str, Any]
    value: float
    step: float | None


class Rung(TypedDict):
    """A number of steps at which members are compared, how many have reached it, and how many went on."""

    steps: float
    reached: int
    kept: int


class SweepRho(TypedDict):
    """How much slower the sweep is than with GPUs of its own."""

    cluster: float | None
    quota: float | None
    sentence: str


class Sweep(TypedDict):
    """A sweep as the server tells it; lists leave out what is `NotRequired`."""

    id: int
    name: str
    tenant: str
    vc: str
    pool: str
    owner: str
    state: SweepState
    reason: str
    method: str
    metric: str
    goal: str
    params: list[str]
    parallel: int
    members: dict[str, int]
    best: BestMember | None
    gpu_hours: float
    saved_gpu_hours: float
    submitted_at: str
    ended_at: str | None
    cloned_from: int | None
    spec: NotRequired[JobSpec]
    best_so_far: NotRequired[list[tuple[float, float]]]
    rungs: NotRequired[list[Rung]]
    rho: NotRequired[SweepRho | None]
    warnings: NotRequired[list[str]]
    retried: NotRequired[int]
    notes: NotRequired[list[str]]


class SweepMember(TypedDict):
    """A member of a sweep: one job with its parameters."""

    member: int
    job: int
    state: str
    params: dict[str, Any]
    value: float | None
    step: float | None
    rung: int
    gpu_hours: float
    saved_gpu_hours: float
    why: str
    started_at: str | None
    ended_at: str | None


class SweepPage(TypedDict):
    """One page of sweeps, and the cursor of the page after it."""

    results: list[Sweep]
    next: str | None


class SweepCalls:
    """The calls of a client that are about sweeps."""

    _http: Transport

    def submit_sweep(self, spec: JobSpec, *, idempotency_key: str | None = None) -> Sweep:
        """Return the new sweep; the spec is that of a job with the key `sweep`. Sent again, it is stored once."""
        headers = {"Idempotency-Key": idempotency_key or new_idempotency_key()}
        answer = self._http.document("POST", "/sweeps", json_body=spec, headers=headers, repeatable=True)
        return cast(Sweep, answer)

    def sweep(self, sweep_id: int) -> Sweep:
        """Return one sweep."""
        return cast(Sweep, self._http.document("GET", f"/sweeps/{sweep_id}"))

    def sweep_members(self, sweep_id: int) -> list[SweepMember]:
        """Return all members of a sweep, in order."""
        return cast(list[SweepMember], self._http.document("GET", f"/sweeps/{sweep_id}/members")["results"])

    def sweeps(
        self, *, limit: int = 50, cursor: str | None = None, state: SweepState | None = None, mine: bool = False
    ) -> SweepPage:
        """Return up to `limit` sweeps, newest first, over several pages if need be."""
        params: JsonObject = {"mine": True} if mine else {}
        if state is not None:
            params["state"] = state
        results: list[Sweep] = []
        while True:
            params["limit"] = min(limit - len(results), MAX_PAGE)
            if cursor is not None:
                params["cursor"] = cursor
            page = self._http.document("GET", "/sweeps", params=params)
            results += page["results"]
            cursor = page["next"]
            if cursor is None or len(results) >= limit:
                return {"results": results, "next": cursor}

    def retry_sweep(self, sweep_id: int) -> Sweep:
        """Return the sweep, whose failed members run again; `retried` says how many."""
        return cast(Sweep, self._http.document("POST", f"/sweeps/{sweep_id}:retry"))

    def cancel_sweep(self, sweep_id: int) -> Sweep:
        """Return the sweep, all members of which are being stopped."""
        return cast(Sweep, self._http.document("POST", f"/sweeps/{sweep_id}:cancel", repeatable=True))

    def clone_sweep(self, sweep_id: int, *, changes: JobSpec | None = None) -> Sweep:
        """Return a new sweep with the same spec, but for the keys in `changes` and, within `sweep`, its keys."""
        return cast(Sweep, self._http.document("POST", f"/sweeps/{sweep_id}:clone", json_body={"spec": changes or {}}))
