"""The SDK's calls for waiting jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from muster_client.calls.transport import Transport

if TYPE_CHECKING:
    from muster_client.answers.jobs import Job
    from muster_client.answers.queue import Queue


class QueueCalls:
    """The calls of a client that are about waiting jobs."""

    _http: Transport

    def queue(self, vc_id: int, *, mine: bool = False, limit: int = 50) -> Queue:
        """Return up to `limit` jobs that wait in a virtual cluster, the first one first; held jobs come last."""
        params = {"mine": True} if mine else {}
        return cast("Queue", self._http.pages(f"/vcs/{vc_id}/queue", params, limit=limit))

    def hold(self, job_id: int) -> Job:
        """Return the waiting job, which is held until it is released."""
        return self._act(job_id, "hold")

    def release(self, job_id: int) -> Job:
        """Return the job, which waits for its turn again."""
        return self._act(job_id, "release")

    def bump(self, job_id: int) -> Job:
        """Return the waiting job, which is before all others of its virtual cluster; for managers."""
        return self._act(job_id, "bump")

    def unbump(self, job_id: int) -> Job:
        """Return the job, which has the place back that it has without the bump."""
        return self._act(job_id, "unbump")

    def reorder(self, vc_id: int, job_ids: Sequence[int]) -> None:
        """Let waiting jobs of one owner share out the places that they hold, in this order."""
        self._http.request("POST", f"/vcs/{vc_id}/queue:reorder", json_body={"jobs": list(job_ids)})

    def _act(self, job_id: int, act: str) -> Job:
        return cast("Job", self._http.document("POST", f"/jobs/{job_id}:{act}", repeatable=act != "bump"))
