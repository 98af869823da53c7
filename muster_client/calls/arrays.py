"""The SDK's calls for arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from muster_client.calls.transport import Transport, new_idempotency_key

if TYPE_CHECKING:
    from muster_client.answers.arrays import (
        Array,
        ArrayMember,
        ArrayMemberPage,
        ArrayPage,
        RetriedArray,
        SubmittedArray,
    )
    from muster_client.answers.queue import HeldMembers
    from muster_client.answers.terms import JobSpec, JsonObject

MAX_MEMBERS = 20_000


class ArrayCalls:
    """The calls of a client that are about arrays."""

    _http: Transport

    def submit_array(self, spec: JobSpec, *, idempotency_key: str | None = None) -> SubmittedArray:
        """Return the new array; the spec is that of a job with the key `array`. Sent again, it is stored once."""
        headers = {"Idempotency-Key": idempotency_key or new_idempotency_key()}
        answer = self._http.document("POST", "/arrays", json_body=spec, headers=headers, repeatable=True)
        return cast("SubmittedArray", answer)

    def array(self, array_id: int) -> Array:
        """Return one array."""
        return cast("Array", self._http.document("GET", f"/arrays/{array_id}"))

    def arrays(self, *, limit: int = 50, cursor: str | None = None, mine: bool = False) -> ArrayPage:
        """Return up to `limit` arrays, newest first, over several pages if need be."""
        params: JsonObject = {"mine": True} if mine else {}
        return cast("ArrayPage", self._http.pages("/arrays", params, limit=limit, cursor=cursor))

    def array_members(
        self, array_id: int, *, state: str | None = None, indices: str | None = None, limit: int = MAX_MEMBERS
    ) -> list[ArrayMember]:
        """Return members of an array by their index: all, or those in a state or with some indices, such as `1,5-7`."""
        given = {"state": state, "indices": indices}
        params: JsonObject = {name: value for name, value in given.items() if value is not None}
        page = cast("ArrayMemberPage", self._http.pages(f"/arrays/{array_id}/members", params, limit=limit))
        return page["results"]

    def retry_array(self, array_id: int, *, indices: str | None = None) -> RetriedArray:
        """Return the array, whose failed members run again, or those of some indices; `retried` says how many."""
        answer = self._http.document("POST", f"/arrays/{array_id}:retry", json_body={"indices": indices})
        return cast("RetriedArray", answer)

    def cancel_array(self, array_id: int, *, indices: str | None = None) -> Array:
        """Return the array, whose members, or those with some indices, are being stopped."""
        body = {"indices": indices}
        return cast("Array", self._http.document("POST", f"/arrays/{array_id}:cancel", json_body=body, repeatable=True))

    def hold_array(self, array_id: int) -> HeldMembers:
        """Hold the waiting members back until they are released, and return how many."""
        return cast("HeldMembers", self._http.document("POST", f"/arrays/{array_id}:hold", repeatable=True))

    def release_array(self, array_id: int) -> HeldMembers:
        """Let the held members wait for their turns again, and return how many."""
        return cast("HeldMembers", self._http.document("POST", f"/arrays/{array_id}:release", repeatable=True))

    def clone_array(self, array_id: int, *, changes: JobSpec | None = None) -> SubmittedArray:
        """Return a new array with the same spec, but for the keys in `changes` and, within `array`, its keys."""
        answer = self._http.document("POST", f"/arrays/{array_id}:clone", json_body={"spec": changes or {}})
        return cast("SubmittedArray", answer)
