"""The SDK's calls for sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from muster_client.calls.transport import Transport, new_idempotency_key

if TYPE_CHECKING:
    from muster_client.answers.queue import HeldMembers
    from muster_client.answers.sweeps import RetriedSweep, SubmittedSweep, Sweep, SweepMember, SweepPage
    from muster_client.answers.terms import JobSpec, JsonObject

SweepState = Literal["active", "succeeded", "failed", "cancelled"]
SWEEP_STATES: tuple[SweepState, ...] = ("active", "succeeded", "failed", "cancelled")


class SweepCalls:
    """The calls of a client that are about sweeps."""

    _http: Transport

    def submit_sweep(self, spec: JobSpec, *, idempotency_key: str | None = None) -> SubmittedSweep:
        """Return the new sweep; the spec is that of a job with the key `sweep`. Sent again, it is stored once."""
        headers = {"Idempotency-Key": idempotency_key or new_idempotency_key()}
        answer = self._http.document("POST", "/sweeps", json_body=spec, headers=headers, repeatable=True)
        return cast("SubmittedSweep", answer)

    def sweep(self, sweep_id: int) -> Sweep:
        """Return one sweep."""
        return cast("Sweep", self._http.document("GET", f"/sweeps/{sweep_id}"))

    def sweep_members(self, sweep_id: int) -> list[SweepMember]:
        """Return all members of a sweep, in order."""
        return cast("list[SweepMember]", self._http.document("GET", f"/sweeps/{sweep_id}/members")["results"])

    def sweeps(
        self, *, limit: int = 50, cursor: str | None = None, state: SweepState | None = None, mine: bool = False
    ) -> SweepPage:
        """Return up to `limit` sweeps, newest first, over several pages if need be."""
        params: JsonObject = {"mine": True} if mine else {}
        if state is not None:
            params["state"] = state
        return cast("SweepPage", self._http.pages("/sweeps", params, limit=limit, cursor=cursor))

    def retry_sweep(self, sweep_id: int) -> RetriedSweep:
        """Return the sweep, whose failed members run again; `retried` says how many."""
        return cast("RetriedSweep", self._http.document("POST", f"/sweeps/{sweep_id}:retry"))

    def cancel_sweep(self, sweep_id: int) -> Sweep:
        """Return the sweep, all members of which are being stopped."""
        return cast("Sweep", self._http.document("POST", f"/sweeps/{sweep_id}:cancel", repeatable=True))

    def hold_sweep(self, sweep_id: int) -> HeldMembers:
        """Hold the waiting members back until they are released, and return how many."""
        return cast("HeldMembers", self._http.document("POST", f"/sweeps/{sweep_id}:hold", repeatable=True))

    def release_sweep(self, sweep_id: int) -> HeldMembers:
        """Let the held members wait for their turns again, and return how many."""
        return cast("HeldMembers", self._http.document("POST", f"/sweeps/{sweep_id}:release", repeatable=True))

    def clone_sweep(self, sweep_id: int, *, changes: JobSpec | None = None) -> SubmittedSweep:
        """Return a new sweep with the same spec, but for the keys in `changes` and, within `sweep`, its keys."""
        answer = self._http.document("POST", f"/sweeps/{sweep_id}:clone", json_body={"spec": changes or {}})
        return cast("SubmittedSweep", answer)
