"""The SDK: one method for each thing that the REST API can do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar, cast
from urllib.parse import quote

import httpx

from muster_client.answers.terms import FINISHED
from muster_client.calls.arrays import ArrayCalls
from muster_client.calls.backoff import BackOff
from muster_client.calls.logs import LogEvent, LogPage, follow, page_of
from muster_client.calls.queue import QueueCalls
from muster_client.calls.selection import selection
from muster_client.calls.shellcalls import ShellCalls
from muster_client.calls.slurm import SlurmCalls
from muster_client.calls.sweeps import SweepCalls
from muster_client.calls.transport import MAX_PAGE, Transport, new_idempotency_key
from muster_client.errors import MusterError
from muster_client.local.config import normalise_url

if TYPE_CHECKING:
    from muster_client.answers.accounts import Me, Token, TokenWithSecret
    from muster_client.answers.arrays import Array
    from muster_client.answers.fairness import JobFairness
    from muster_client.answers.fleet import Gpu, Maintenance, Node, NodeDetail
    from muster_client.answers.forecast import DryRun, TranslatedScript, WaitCalibration, When, Why
    from muster_client.answers.jobs import (
        Attempt,
        BatchAnswer,
        CancelAnswer,
        DependencyGraph,
        Job,
        JobCount,
        JobEvent,
        JobInList,
        JobPage,
        SubmittedJob,
    )
    from muster_client.answers.metrics import JobTraining
    from muster_client.answers.notices import Webhook, WebhookWithSecret
    from muster_client.answers.offers import Accepted, Framework, Offer
    from muster_client.answers.outputs import OutputFile, OutputFilePage, Upload
    from muster_client.answers.shells import OpenedShell
    from muster_client.answers.terms import JobSpec, JsonObject
    from muster_client.answers.tree import Registry, VirtualCluster, Volume
    from muster_client.answers.usage import DelayUsage, Usage, Waste

    # What packing needs to import takes as long as many a command.
    from muster_client.local.pack import Archive

Awaited = TypeVar("Awaited", "Job", "Array")

FILE_PART_BYTES = 4 << 20
LOG_PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SignIn:
    """The result of a login with a password: the user, and a token for the calls that follow."""

    me: Me
    token: TokenWithSecret


class Launch(TypedDict):
    """A job to launch on an offer, on the GPUs with these UUIDs, or on the first that fit."""

    spec: JobSpec
    gpus: NotRequired[list[str]]


class Client(ArrayCalls, SweepCalls, QueueCalls, SlurmCalls):
    """A Muster server, as one user sees it.

    >>> with Client("https://muster.example.org", "mst_...") as client:
    ...     job = client.submit({"command": "python train.py", "gpus": 1})
    ...     client.wait(job["id"])
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        backoff: BackOff | None = None,
    ) -> None:
        self.url = normalise_url(url)
        self._transport = transport
        self._http = Transport(self.url, token, transport=transport, backoff=backoff)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # Account

    def sign_in(
        self, username: str, password: str, *, token_name: str, expires_in: str, scopes: Sequence[str] | None = None
    ) -> SignIn:
        """Return a new token of the user, got through a session that is ended again."""
        # Django hands out the CSRF cookie here, and a fresh one with the login.
        self._http.request("GET", "/login")
        body = {"username": username, "password": password}
        # After too many wrong passwords the server makes wait; that is for the user to know, not to sit through.
        me = self._http.document("POST", "/login", json_body=body, patient=False)
        token = self.create_token(token_name, expires_in=expires_in, scopes=scopes)
        # The session ends by itself; losing the new token over it would be worse.
        with contextlib.suppress(MusterError):
            self._http.request("POST", "/logout")
        return SignIn(me=cast("Me", me), token=token)

    def me(self) -> Me:
        """Return the user whom the token belongs to."""
        return cast("Me", self._http.document("GET", "/me"))

    def tokens(self) -> list[Token]:
        """Return the user's API tokens, without their secrets."""
        return cast("list[Token]", self._all("/tokens"))

    def create_token(
        self,
        name: str,
        *,
        expires_in: str | None = None,
        scopes: Sequence[str] | None = None,
        survives_password_change: bool = False,
    ) -> TokenWithSecret:
        """Return a new token with its secret, which the server tells only this once.

        Without `scopes` it may read and submit. It ends when its user's password changes, unless it is to survive that.
        """
        body: JsonObject = {"name": name}
        if expires_in is not None:
            body["expires_in"] = expires_in
        if scopes is not None:
            body["scopes"] = list(scopes)
        if survives_password_change:
            body["survives_password_change"] = True
        return cast("TokenWithSecret", self._http.document("POST", "/tokens", json_body=body))

    def revoke_token(self, token_id: int) -> None:
        """End a token for good."""
        self._http.request("DELETE", f"/tokens/{token_id}")

    def maintenance(self) -> list[Maintenance]:
        """Return the times in which nodes are to be free of jobs, the next one first."""
        return cast("list[Maintenance]", self._all("/maintenance"))

    def plan_maintenance(
        self,
        *,
        ends_at: str,
        reason: str,
        node: str | None = None,
        pool: str | None = None,
        begins_at: str | None = None,
        running_jobs: str = "wait",
    ) -> Maintenance:
        """Return a new time in which a node, or every node of a pool, is to be free of jobs. For operators."""
        given = {"node": node, "pool": pool, "begins_at": begins_at}
        body = {name: value for name, value in given.items() if value is not None}
        body |= {"ends_at": ends_at, "running_jobs": running_jobs, "reason": reason}
        return cast("Maintenance", self._http.document("POST", "/maintenance", json_body=body))

    def call_off_maintenance(self, maintenance_id: int, *, reason: str | None = None) -> None:
        """End it now, or call it off before it begins. For operators."""
        params = {} if reason is None else {"reason": reason}
        self._http.request("DELETE", f"/maintenance/{maintenance_id}", params=params)

    def volumes(self) -> list[Volume]:
        """Return the volumes that the user's jobs may mount."""
        return cast("list[Volume]", self._all("/volumes"))

    def registries(self) -> list[Registry]:
        """Return which registries the tenants that the user manages have credentials for, without the passwords."""
        return cast("list[Registry]", self._all("/registries"))

    def store_registry(self, registry: str, username: str, password: str, *, tenant: str | None = None) -> Registry:
        """Return the stored credentials of a tenant, in the place of those that it had for the registry."""
        body: JsonObject = {"registry": registry, "username": username, "password": password}
        if tenant is not None:
            body["tenant"] = tenant
        return cast("Registry", self._http.document("POST", "/registries", json_body=body, repeatable=True))

    def remove_registry(self, registry_id: int) -> None:
        """Forget a tenant's credentials for a registry."""
        self._http.request("DELETE", f"/registries/{registry_id}")

    def webhooks(self) -> list[Webhook]:
        """Return the user's webhooks, oldest first, without their secrets."""
        return cast("list[Webhook]", self._all("/webhooks"))

    def create_webhook(self, url: str) -> WebhookWithSecret:
        """Return a new webhook with its secret, which the server tells only this once."""
        return cast("WebhookWithSecret", self._http.document("POST", "/webhooks", json_body={"url": url}))

    def remove_webhook(self, webhook_id: int) -> None:
        """Remove a webhook; what waits for it is not sent."""
        self._http.request("DELETE", f"/webhooks/{webhook_id}")

    def test_webhook(self, webhook_id: int, *, timeout_s: int = 60) -> Webhook | None:
        """Return the webhook after a ping of it was tried, or None if none was within the time."""
        before = cast("Webhook", self._http.document("POST", f"/webhooks/{webhook_id}:test"))
        for second in range(timeout_s):
            if second:
                self._http.backoff.sleep(1.0)
            now = cast("Webhook", self._http.document("GET", f"/webhooks/{webhook_id}"))
            if now["last_try_at"] != before["last_try_at"]:
                return now
        return None

    # Jobs

    def submit(self, spec: JobSpec, *, idempotency_key: str | None = None) -> SubmittedJob:
        """Return the new job; however often the request is sent, it is stored once."""
        key = idempotency_key or new_idempotency_key()
        headers = {"Idempotency-Key": key}
        answer = self._http.document("POST", "/jobs", json_body=spec, headers=headers, repeatable=True)
        return cast("SubmittedJob", answer)

    def submit_batch(self, specs: Sequence[JobSpec], *, idempotency_key: str | None = None) -> BatchAnswer:
        """Return the stored jobs, and each refused spec with its index and the reason; up to 1,000 specs a call.

        The server stores the valid specs in one transaction. However often the request is sent, it stores them once.
        """
        key = idempotency_key or new_idempotency_key()
        body: JsonObject = {"jobs": list(specs)}
        headers = {"Idempotency-Key": key}
        answer = self._http.document("POST", "/jobs:batch", json_body=body, headers=headers, repeatable=True)
        return cast("BatchAnswer", answer)

    def dry_run(self, spec: JobSpec) -> DryRun:
        """Return what would happen to this job, without storing it."""
        return cast("DryRun", self._http.document("POST", "/jobs:dry-run", json_body=spec, repeatable=True))

    def translate_script(
        self,
        script: str,
        *,
        name: str = "sbatch",
        options: Sequence[str] = (),
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str = "",
    ) -> TranslatedScript:
        """Return the spec that a script with `#SBATCH` directives asks for, submitted in the folder, without storing
        it."""
        body = {"script": script, "name": name, "options": list(options), "arguments": list(arguments)}
        sent = body | {"environment": dict(environment or {}), "folder": folder}
        answer = self._http.document("POST", "/sbatch:translate", json_body=sent, repeatable=True)
        return cast("TranslatedScript", answer)

    def spec_schema(self) -> JsonObject:
        """Return the JSON Schema of a spec."""
        return self._http.document("GET", "/spec/schema")

    def job(self, job_id: int) -> Job:
        """Return one job."""
        return cast("Job", self._http.document("GET", f"/jobs/{job_id}"))

    def jobs_page(self, *, limit: int = 50, cursor: str | None = None, **filters: Any) -> JobPage:
        """Return one page of jobs, newest first; the filters are those of `muster_client.calls.selection`."""
        params = selection(**filters) | {"limit": min(limit, MAX_PAGE)}
        if cursor is not None:
            params["cursor"] = cursor
        return cast("JobPage", self._http.document("GET", "/jobs", params=params))

    def count_jobs(self, **filters: Any) -> JobCount:
        """Return how many jobs match, and how many of them the user can cancel; filters as in `jobs_page`."""
        return cast("JobCount", self._http.document("GET", "/jobs:count", params=selection(**filters)))

    def cancel_jobs(self, **filters: Any) -> CancelAnswer:
        """Cancel the jobs that match and that the user may cancel, queued jobs first; filters as in `jobs_page`.

        Each job is cancelled by itself: one that cannot be cancelled is in `refused`, and the others are cancelled.
        """
        result: CancelAnswer = {"cancelled": [], "refused": [], "remaining": 0}
        while True:
            body = selection(**filters)
            part = cast("CancelAnswer", self._http.document("POST", "/jobs:cancel", json_body=body, repeatable=True))
            result["cancelled"] += part["cancelled"]
            result["refused"] += part["refused"]
            result["remaining"] = part["remaining"]
            if not part["remaining"] or not part["cancelled"]:
                return result

    def jobs(self, *, limit: int = 50, cursor: str | None = None, **filters: Any) -> JobPage:
        """Return up to `limit` jobs, newest first, over as many pages as that takes."""
        return cast("JobPage", self._http.pages("/jobs", selection(**filters), limit=limit, cursor=cursor))

    def why(self, job_id: int) -> Why:
        """Return why a job is in the state it is in."""
        return cast("Why", self._http.document("GET", f"/jobs/{job_id}/why"))

    def when(self, job_id: int) -> When:
        """Return when a job will start, or started, and the forecasts of that."""
        return cast("When", self._http.document("GET", f"/jobs/{job_id}/when"))

    def waits(self, pool: str, *, weeks: int | None = None) -> WaitCalibration:
        """Return the forecasts of waits in a pool, held against the waits of the last weeks."""
        params = {"pool": pool} if weeks is None else {"pool": pool, "weeks": weeks}
        return cast("WaitCalibration", self._http.document("GET", "/predictions/waits", params=params))

    def dependencies(self, job_id: int) -> DependencyGraph:
        """Return what a job waits for and what waits for it, as a graph."""
        return cast("DependencyGraph", self._http.document("GET", f"/jobs/{job_id}/dependencies"))

    def fairness(self, job_id: int) -> JobFairness:
        """Return how much longer a job takes than alone, final or as it stands."""
        return cast("JobFairness", self._http.document("GET", f"/jobs/{job_id}/fairness"))

    def training(self, job_id: int) -> JobTraining:
        """Return the newest figures that a job told of itself, and what there is to say of them."""
        return cast("JobTraining", self._http.document("GET", f"/jobs/{job_id}/training"))

    def attempts(self, job_id: int) -> list[Attempt]:
        """Return the attempts at running a job."""
        return cast("list[Attempt]", self._all(f"/jobs/{job_id}/attempts"))

    def events(self, job_id: int) -> list[JobEvent]:
        """Return what happened to a job, oldest first."""
        return cast("list[JobEvent]", self._all(f"/jobs/{job_id}/events"))

    def cancel(self, job_id: int) -> Job:
        """Return the job, which is being stopped."""
        # Wanting a stop twice is wanting it once, so a lost answer may be asked for again.
        return cast("Job", self._http.document("POST", f"/jobs/{job_id}:cancel", repeatable=True))

    def requeue(self, job_id: int) -> Job:
        """Return the job, which is stopped if need be and waits again."""
        return cast("Job", self._http.document("POST", f"/jobs/{job_id}:requeue"))

    def clone(self, job_id: int, *, changes: JobSpec | None = None) -> SubmittedJob:
        """Return a new job with the same spec, but for the keys in `changes`."""
        body = {"spec": changes} if changes else None
        return cast("SubmittedJob", self._http.document("POST", f"/jobs/{job_id}:clone", json_body=body))

    def wait(self, job_id: int, *, poll_s: float = 2.0, timeout_s: float | None = None) -> Job | None:
        """Return the job when it has finished; None when that took longer than the timeout."""
        return self._finished(lambda: self.job(job_id), poll_s=poll_s, timeout_s=timeout_s)

    def wait_for_array(self, array_id: int, *, poll_s: float = 2.0, timeout_s: float | None = None) -> Array | None:
        """Return the array when its last member has ended; None when that took longer than the timeout."""
        return self._finished(lambda: self.array(array_id), poll_s=poll_s, timeout_s=timeout_s)

    def _finished(self, ask: Callable[[], Awaited], *, poll_s: float, timeout_s: float | None) -> Awaited | None:
        waited_s = 0.0
        while True:
            found = ask()
            if found["state"] in FINISHED:
                return found
            if timeout_s is not None and waited_s >= timeout_s:
                return None
            pause_s = poll_s if timeout_s is None else min(poll_s, timeout_s - waited_s)
            self._http.backoff.sleep(pause_s)
            waited_s += pause_s

    def pause(self) -> None:
        """Wait a moment before asking again."""
        self._http.backoff.sleep(1.0)

    # Shells

    def open_shell(
        self,
        job_id: int,
        *,
        rank: int = 0,
        command: Sequence[str] = (),
        terminal: bool = True,
        term: str = "xterm",
        rows: int = 24,
        cols: int = 80,
    ) -> OpenedShell:
        """Return a shell that the node's agent is about to open; `shell_calls` carries its bytes."""
        body = {"rank": rank, "command": list(command), "terminal": terminal, "term": term, "rows": rows, "cols": cols}
        return cast("OpenedShell", self._http.document("POST", f"/jobs/{job_id}/shells", json_body=body))

    def shell_calls(self, shell: OpenedShell) -> ShellCalls:
        """Return what carries the bytes of a shell, with the shell's own token."""
        once = BackOff(tries=1)
        http = Transport(self.url, shell["token"], transport=self._transport, backoff=once)
        return ShellCalls(http, shell["id"])

    # Logs

    def log_page(
        self,
        job_id: int,
        *,
        offset: int = 0,
        limit: int = LOG_PAGE_BYTES,
        attempt: int | None = None,
        rank: int | None = None,
    ) -> LogPage:
        """Return stored output from a byte on: of all ranks in the order of arrival, or of one."""
        params = {**_log_params(attempt, rank), "offset": offset, "limit": limit}
        response = self._http.request("GET", f"/jobs/{job_id}/logs", params=params, headers={"Accept": "text/plain"})
        return page_of(response, offset)

    def read_logs(self, job_id: int, *, attempt: int | None = None, rank: int | None = None) -> Iterator[LogPage]:
        """Yield the output stored so far, page by page, of one attempt."""
        offset = 0
        while True:
            page = self.log_page(job_id, offset=offset, attempt=attempt, rank=rank)
            # A retry that begins between two pages must not be mixed in.
            attempt = page.attempt if page.attempt is not None else attempt
            if page.data:
                yield page
            if page.next_offset >= page.size or page.next_offset <= offset:
                return
            offset = page.next_offset

    def follow_logs(
        self, job_id: int, *, attempt: int | None = None, rank: int | None = None, after: str = ""
    ) -> Iterator[LogEvent]:
        """Yield the output and the states of a job until its end, across broken connections."""
        params = {**_log_params(attempt, rank), "follow": 1}
        return follow(self._http, f"/jobs/{job_id}/logs", params, after=after)

    # Files

    def files(self, job_id: int, *, attempt: int | None = None) -> OutputFilePage:
        """Return the files that a job left, those of its latest attempt first, and what was left out and why."""
        params = {"limit": MAX_PAGE} if attempt is None else {"limit": MAX_PAGE, "attempt": attempt}
        return cast("OutputFilePage", self._http.pages(f"/jobs/{job_id}/files", params))

    def read_file(self, job_id: int, file: OutputFile) -> Iterator[bytes]:
        """Yield the bytes of a file, a part at a time; compare their SHA-256 with that of the file."""
        offset = 0
        while offset < file["size"]:
            last = min(offset + FILE_PART_BYTES, file["size"]) - 1
            headers = {"Accept": "*/*", "Range": f"bytes={offset}-{last}"}
            part = self._http.request("GET", f"/jobs/{job_id}/files/{file['id']}", headers=headers)
            if part.status_code != httpx.codes.PARTIAL_CONTENT or len(part.content) != last - offset + 1:
                raise MusterError(f"The server sent another part of file {file['id']} than bytes {offset} to {last}.")
            yield part.content
            offset = last + 1

    # Code

    def knows_upload(self, sha256: str) -> bool:
        """Return whether the server already has this archive."""
        return self._http.request("HEAD", f"/uploads/{sha256}", allowed=frozenset({404})).status_code != 404

    def upload(self, archive: Archive, *, sent: Callable[[int], None] | None = None) -> Upload:
        """Return the stored archive; `sent` hears how many of its bytes are on their way."""

        def body() -> Iterable[bytes]:
            done = 0
            for chunk in archive.chunks():
                yield chunk
                done += len(chunk)
                if sent is not None:
                    sent(done)

        headers = {
            "Content-Type": "application/gzip",
            "Content-Length": str(archive.size),
            "X-Content-SHA256": archive.sha256,
        }
        return cast("Upload", self._http.document("POST", "/uploads", body=body, headers=headers, repeatable=True))

    # Cluster

    def nodes(self, *, health: str | None = None) -> list[Node]:
        """Return the nodes and their GPUs; only those of a health, such as `failure`, by the worst of their GPUs."""
        return cast("list[Node]", self._all("/nodes", {} if health is None else {"health": health}))

    def node(self, name: str) -> NodeDetail:
        """Return one node."""
        return cast("NodeDetail", self._http.document("GET", f"/nodes/{quote(name, safe='')}"))

    def check_node(self, name: str) -> NodeDetail:
        """Have the node's GPUs checked that no job has, and return the node; for operators."""
        return cast("NodeDetail", self._http.document("POST", f"/nodes/{quote(name, safe='')}:check", repeatable=True))

    def change_node(self, name: str, action: str, *, reason: str | None = None) -> NodeDetail:
        """Cordon, drain, move-off or resume the node, and return it; for operators. Only resume needs no reason."""
        body = {"action": action} if reason is None else {"action": action, "reason": reason}
        return cast("NodeDetail", self._http.document("PATCH", f"/nodes/{quote(name, safe='')}", json_body=body))

    def declare_node_gone(self, name: str, *, reason: str) -> NodeDetail:
        """Take a silent node for gone, so that what it has is let go, and return the node; for operators."""
        path = f"/nodes/{quote(name, safe='')}:declare-gone"
        return cast("NodeDetail", self._http.document("POST", path, json_body={"reason": reason}))

    def gpus(self) -> list[Gpu]:
        """Return every GPU."""
        return cast("list[Gpu]", self._all("/gpus"))

    def vcs(self) -> list[VirtualCluster]:
        """Return the virtual clusters that the user may submit to."""
        return cast("list[VirtualCluster]", self._all("/vcs"))

    def usage(self, *, by: str = "vc", **asked: str) -> Usage:
        """Return GPU-hours by what the comma-separated list says; `asked` has since, from, to, tenant, vc, user."""
        return cast("Usage", self._http.document("GET", "/usage", params={"by": by, **asked}))

    def usage_csv(self, *, by: str = "vc", **asked: str) -> str:
        """Return the same as a table for spreadsheets."""
        return self._http.request("GET", "/usage", params={"by": by, "format": "csv", **asked}).text

    def waste(self, **asked: str) -> Waste:
        """Return what GPU-hours were for, and what of them came to nothing."""
        return cast("Waste", self._http.document("GET", "/usage/waste", params=asked))

    def delays(self, **asked: str) -> DelayUsage:
        """Return how long jobs waited for their starts, by their delays."""
        return cast("DelayUsage", self._http.document("GET", "/usage/delays", params=asked))

    # Offers

    def register_framework(self, role: str, *, needs: str | None = None) -> Framework:
        """Return the user's framework in the role; registering again forgets its filters.

        With `needs`, as "image", it is offered only nodes that start such jobs.
        """
        body = {"role": role} if needs is None else {"role": role, "needs": needs}
        return cast("Framework", self._http.document("POST", "/frameworks", json_body=body, repeatable=True))

    def frameworks(self) -> list[Framework]:
        """Return the user's frameworks."""
        return cast("list[Framework]", self._all("/frameworks"))

    def leave(self, framework_id: int) -> None:
        """Ask for no more offers, and give back those that stand; what was launched goes on."""
        self._http.request("DELETE", f"/frameworks/{framework_id}")

    def offers(self, *, wait_s: int = 20, after: int = 0) -> list[Offer]:
        """Return the standing offers, as soon as there is one with an id above `after`, or after `wait_s`."""
        page = self._http.document("GET", "/offers", params={"wait": wait_s, "after": after})
        return cast("list[Offer]", page["results"])

    def accept_offer(self, offer_id: int, launches: Sequence[Launch], *, filter: str = "5s") -> list[JobInList]:  # noqa: A002
        """Return the jobs that were launched, all of them; of what is left nothing is offered again for `filter`.

        An `ApiError` with status 409 says why nothing was launched: the offer has ended, or its node has changed.
        """
        body = {"jobs": list(launches), "filter": filter}
        answer = cast("Accepted", self._http.document("POST", f"/offers/{offer_id}:accept", json_body=body))
        return answer["jobs"]

    def decline_offer(self, offer_id: int, *, filter: str = "5s") -> None:  # noqa: A002
        """Give an offer back, and hear nothing of its node for `filter`."""
        # Declining twice is declining once, so a lost answer may be asked for again.
        self._http.request("POST", f"/offers/{offer_id}:decline", json_body={"filter": filter}, repeatable=True)

    def _all(self, path: str, wanted: Mapping[str, str | int] | None = None) -> Sequence[JsonObject]:
        """Return a whole list, following its cursors."""
        results: Sequence[JsonObject] = self._http.pages(path, wanted)["results"]
        return results


def _log_params(attempt: int | None, rank: int | None) -> dict[str, str | int]:
    return {key: value for key, value in (("attempt", attempt), ("rank", rank)) if value is not None}
