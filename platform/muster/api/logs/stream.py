"""A job's log: read by offset, downloaded, or followed as it grows."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from muster.api.streaming import sse
from muster.api.streaming.callers import caller, flag, number
from muster.common.asgi import in_thread
from muster.common.errors import Invalid, NotFound
from muster.common.pace import Pace
from muster.common.rows import first_of
from muster.events.hub import hub
from muster.events.redis import EVENTS_CHANNEL, log_channel
from muster.jobs.models import Attempt, Job
from muster.jobs.selectors import get_job
from muster.logs.selectors import (
    MAX_PIECES,
    MAX_TURNS,
    Extract,
    Piece,
    attempt_of,
    bytes_before,
    extract,
    is_over,
    pieces,
)
from scheduler.model.lifecycle import ATTEMPT_TERMINAL, JOB_TERMINAL

# A character has four bytes at most, so no more than three of them can lie in front of a place inside it.
MAX_BYTES_BEFORE = 3

_decoder = codecs.getincrementaldecoder("utf-8")


class RankText:
    """The text of one rank's log, from a place on.

    `before` = the bytes right before that place. Their complete characters belong to the text before it; an incomplete
    one is returned once the rest of it comes. If the place lies inside a character, the text begins with all of it.
    """

    def __init__(self, offset: int, before: bytes) -> None:
        self._decoder = _decoder("replace")
        self._decoder.decode(before[-MAX_BYTES_BEFORE:])
        self._next = offset

    def of(self, offset: int, body: bytes) -> str:
        """The text that the piece adds; bytes on two sides of a hole never make a character."""
        broken = ""
        if offset != self._next:
            broken = self._decoder.decode(b"", final=True)
            self._decoder.reset()
        self._next = offset + len(body)
        return broken + self._decoder.decode(body)


DEFAULT_READ_BYTES, MAX_READ_BYTES = 256 << 10, 4 << 20
PIECES_AT_ONCE = 512 << 10
# Events of other jobs wake us too: our own is looked at this often in the long run, and a few times at once. To see its
# start and its first line takes five looks.
LOOK_EVERY_S = 0.05
LOOKS_AT_ONCE = 6
# How long a follower waits for the end of a log whose agent may be gone for good.
LAST_BYTES_WAIT_S = 10.0

_EVENT_ID = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


async def logs(request: Request) -> Response:
    """`GET /jobs/{id}/logs`: bytes from an offset, a download, or with `follow=1` an event stream."""
    user = caller(request)
    job_id: int = request.path_params["job_id"]
    job = await in_thread(get_job, user, job_id)
    wanted, rank = number(request, "attempt", least=1), number(request, "rank")
    if flag(request, "follow"):
        follower = await in_thread(_follower, job, request, wanted, rank)
        return sse.stream(follower.events())
    offset = number(request, "offset", default=0) or 0
    limit = min(number(request, "limit", default=DEFAULT_READ_BYTES) or DEFAULT_READ_BYTES, MAX_READ_BYTES)
    attempt = await in_thread(attempt_of, job, wanted)
    if attempt is None:
        return Response(b"", media_type="text/plain", headers={"X-Muster-Size": "0"})
    if flag(request, "download"):
        of_rank = "" if rank is None else f"-rank-{rank}"
        name = f"job-{job.pk}-attempt-{attempt.number}{of_rank}.log"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        first = await in_thread(_read, attempt, rank, offset, MAX_READ_BYTES, None)
        return StreamingResponse(_download(attempt, rank, first), media_type="text/plain", headers=headers)
    found = await in_thread(_read, attempt, rank, offset, limit)
    headers = {
        "X-Muster-Attempt": str(attempt.number),
        "X-Muster-Size": str(found.size),
        "X-Muster-Offset": str(found.start),
        "X-Muster-Next-Offset": str(found.end),
        "X-Muster-Ranks": ",".join(f"{turn.rank}:{turn.offset}:{turn.size}" for turn in found.turns),
    }
    return Response(found.body, media_type="text/plain", headers=headers)


def _read(attempt: Attempt, rank: int | None, offset: int, limit: int, max_turns: int | None = MAX_TURNS) -> Extract:
    return extract(attempt, rank=rank, offset=offset, limit=limit, max_turns=max_turns)


async def _download(attempt: Attempt, rank: int | None, found: Extract) -> AsyncIterator[bytes]:
    while found.body:
        yield found.body
        found = await in_thread(_read, attempt, rank, found.end, MAX_READ_BYTES, None)


@dataclass(slots=True)
class _Look:
    """The result of one look at the job; `over` when nothing more is to be expected of the attempt."""

    job_state: str
    exit_code: int | None
    attempt: Attempt | None
    found: list[Piece]
    over: bool


@dataclass(slots=True)
class _Follower:
    """One reader of a growing log: through every attempt of the job, or through the one it named."""

    job: Job
    only: int | None
    rank: int | None
    attempt: Attempt | None
    cursor: int
    at_border: bool = False
    told: tuple[int, str] | None = None
    texts: dict[int, RankText] = field(default_factory=dict)

    async def events(self) -> AsyncIterator[bytes]:
        """The event stream: subscribe first, then read, then wait, so that nothing falls between."""
        loop = asyncio.get_running_loop()
        ended_at: float | None = None
        pace = Pace(LOOK_EVERY_S, at_once=LOOKS_AT_ONCE)
        yield sse.KEEP_ALIVE
        while True:
            channels = [EVENTS_CHANNEL] + ([log_channel(self.attempt.pk)] if self.attempt else [])
            with hub.waiter(*channels) as waiter:
                given_up = ended_at is not None and loop.time() - ended_at > LAST_BYTES_WAIT_S
                look = await in_thread(self._look, given_up)
                for message in self._messages(look):
                    yield message
                if look.found and (look.over or self._may_go_on(look)):
                    continue
                if look.attempt is not self.attempt:
                    self._turn_to(look.attempt)
                    ended_at = None
                    continue
                if look.over and (look.job_state in JOB_TERMINAL or self.only is not None):
                    yield sse.event(
                        {"state": look.job_state, "exit_code": look.exit_code}, name="end", event_id=self._id()
                    )
                    return
                if self.attempt is not None and self.attempt.state in ATTEMPT_TERMINAL:
                    ended_at = ended_at or loop.time()
                await asyncio.sleep(pace.wait_s(loop.time()))
                wait_s = sse.KEEP_ALIVE_AFTER_S
                if ended_at is not None and not look.over:
                    wait_s = min(wait_s, max(ended_at + LAST_BYTES_WAIT_S - loop.time(), 0))
                if not await waiter.wait(wait_s):
                    yield sse.KEEP_ALIVE

    def _look(self, given_up: bool) -> _Look:
        # The state is read before the bytes: an end that is seen here has all its bytes in front of it.
        newest = self.attempt
        found: list[Piece] = []
        if self.attempt is None:
            state, exit_code = Job.objects.values_list("state", "exit_code").get(pk=self.job.pk)
            over = True
        else:
            attempts = Attempt.objects.filter(pk=self.attempt.pk)
            both = first_of(attempts.values_list("job__state", "job__exit_code", "state"))
            if both is None:
                raise NotFound(f"attempt {self.attempt.number} is no longer stored")
            state, exit_code, self.attempt.state = both
            over = given_up or is_over(self.attempt)
            found = pieces(
                self.attempt, cursor=self.cursor, rank=self.rank, largest=PIECES_AT_ONCE, at_border=self.at_border
            )
            for piece in found:
                if piece.rank not in self.texts:
                    before = bytes_before(self.attempt, piece, MAX_BYTES_BEFORE)
                    self.texts[piece.rank] = RankText(piece.offset, before)
        if not found and over and self.only is None:
            after = self.attempt.number if self.attempt else 0
            newest = Attempt.objects.filter(job=self.job, number__gt=after).order_by("number").first() or self.attempt
        return _Look(state, exit_code, newest, found, over)

    def _may_go_on(self, look: _Look) -> bool:
        """Whether more than this one look could bring was stored already; what comes later wakes us."""
        return len(look.found) >= MAX_PIECES or sum(len(piece.body) for piece in look.found) >= PIECES_AT_ONCE

    def _messages(self, look: _Look) -> list[bytes]:
        messages = []
        for piece in look.found:
            self.cursor, self.at_border = piece.cursor, True
            data: dict[str, Any] = {
                "attempt": self.attempt.number if self.attempt else 0,
                "offset": piece.offset,
                "rank": piece.rank,
                "text": self.texts[piece.rank].of(piece.offset, piece.body),
            }
            messages.append(sse.event(data, name="log", event_id=self._id()))
        state = (self.attempt.number if self.attempt else 0, self.attempt.state if self.attempt else look.job_state)
        if state != self.told:
            self.told = state
            messages.append(sse.event({"attempt": state[0], "state": state[1], "job": look.job_state}, name="state"))
        return messages

    def _turn_to(self, attempt: Attempt | None) -> None:
        self.attempt, self.cursor, self.at_border = attempt, 0, False
        self.texts.clear()

    def _id(self) -> str:
        return f"{self.attempt.number if self.attempt else 0}:{self.cursor}"


def _follower(job: Job, request: Request, wanted: int | None, rank: int | None) -> _Follower:
    """A follower at the place that `Last-Event-ID` names, or at the beginning of the wanted or latest attempt."""
    last = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
    cursor = number(request, "offset", default=0) or 0
    attempt_number = wanted
    if last:
        match = _EVENT_ID.fullmatch(last)
        if not match:
            raise Invalid.field("Last-Event-ID", "write ATTEMPT:POSITION, as the stream's ids read")
        attempt_number, cursor = int(match[1]) or wanted, int(match[2])
    return _Follower(job=job, only=wanted, rank=rank, attempt=attempt_of(job, attempt_number), cursor=cursor)
