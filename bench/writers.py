"""Agents whose jobs write as fast as the platform takes it: `python -m bench.writers`, told by JSON on standard input.

Each has a thread, registers, claims the one allocation that it is given, and sends its log in the largest chunks that
there are. What it sends is made up, so that neither a disk nor a job's own speed is measured. A line on standard output
says when all of them write, and a last one what was taken. They write until a second line comes on standard input, so
that they run beside the whole of another measurement.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from dataclasses import dataclass

from nodeagent.protocol.messages import (
    MAX_CHUNK_BYTES,
    PROTOCOL_VERSION,
    Action,
    AllocationReport,
    BatchItem,
    BeatRequest,
    ClaimRequest,
    DesiredAllocation,
    EndReason,
    EndRequest,
    GpuInfo,
    HelloRequest,
    Inventory,
    ItemOutcome,
    LogFinishRequest,
    Observed,
    RegisterRequest,
    SyncRequest,
)
from nodeagent.transport.client import Client, Refused
from nodeagent.transport.transport import Dialled, Unreachable

_BEAT_EVERY_S = 4.0
_PLACED_WITHIN_S = 60.0
_LINE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders to the writers: one for each join token."""

    url: str
    tokens: list[str]
    name: str = "writer"
    """The prefix of their names: no two nodes of a platform have the same GPUs."""


@dataclass(frozen=True, slots=True)
class Enough:
    """The second line: what is being written is the last of it."""


def chunk_of(size: int = MAX_CHUNK_BYTES) -> bytes:
    """Lines of text, as long as this together."""
    line = b"step 000000 loss 0.693147 " + b"." * (_LINE_BYTES - 27) + b"\n"
    return (line * (size // len(line) + 1))[: size - 1] + b"\n"


class Writer(threading.Thread):
    """One agent with one job."""

    def __init__(
        self, number: int, token: str, orders: Orders, start: threading.Barrier, enough: threading.Event
    ) -> None:
        name = f"{orders.name}{number}"
        super().__init__(name=name)
        self._client = Client(Dialled(orders.url), token)
        self._secret, self._boot, self._state = f"{name}-{'x' * 32}", f"boot-{name}", f"state-{name}"
        self._start, self._enough = start, enough
        gpu = GpuInfo(0, f"GPU-{name}", "A100", 81_920)
        self._inventory = Inventory(name, f"10.9.9.{number}", 64, 524_288, gpus=(gpu,))
        self._epoch = self._seq = 0
        self.bytes, self.seconds = 0, 0.0
        self.error = ""

    def run(self) -> None:
        """Be the agent, from its registration to the end of its job."""
        try:
            self._work()
        except (Refused, Unreachable, TimeoutError, ValueError, threading.BrokenBarrierError) as error:
            self.error = repr(error)
            self._start.abort()

    def _work(self) -> None:
        nonce = self._client.hello(HelloRequest(self._secret)).nonce
        request = RegisterRequest(
            PROTOCOL_VERSION, self._boot, "bench", self._secret, self._inventory, nonce, self._state
        )
        self._epoch = self._client.register(request).epoch
        self._client.secret = self._secret
        given = self._given()
        self._say(BatchItem(given.id, claim=ClaimRequest(given.fence, self._boot, self._epoch, self._state)))
        self._report(given, Observed.RUNNING)
        self._start.wait()
        digest = self._write(given)
        self._report(given, Observed.EXITED)
        end = EndRequest(
            given.fence, self._boot, self._state, EndReason.COMPLETED, 0, log_size=self.bytes, seq=self._next()
        )
        self._say(BatchItem(given.id, end=end))
        self._say(BatchItem(given.id, finish=LogFinishRequest(given.fence, self.bytes, digest)))

    def _say(self, item: BatchItem) -> None:
        (answer,) = self._client.batch([item])
        if not isinstance(answer, ItemOutcome):
            raise answer

    def _given(self) -> DesiredAllocation:
        """The allocation that the platform wants to run here."""
        until = time.monotonic() + _PLACED_WITHIN_S
        generation = ""
        while time.monotonic() < until:
            self._beat()
            answer = self._client.sync(SyncRequest(self._epoch, self._next(), self._boot, generation, 2.0))
            generation = answer.generation
            for one in answer.desired:
                if one.action is Action.RUN:
                    return one
        raise TimeoutError(f"nothing was placed here within {_PLACED_WITHIN_S:.0f} s")

    def _write(self, given: DesiredAllocation) -> str:
        chunk, digest = chunk_of(), hashlib.sha256()
        start = beaten = time.monotonic()
        while not self._enough.is_set():
            if (now := time.monotonic()) > beaten + _BEAT_EVERY_S:
                self._beat()
                beaten = now
            size = self._client.append_log(given.id, given.fence, self.bytes, chunk, None)
            if size != self.bytes + len(chunk):
                raise ValueError(f"the platform has {size} bytes, not {self.bytes + len(chunk)}")
            digest.update(chunk)
            self.bytes = size
        self.seconds = time.monotonic() - start
        return digest.hexdigest()

    def _report(self, given: DesiredAllocation, observed: Observed) -> None:
        told = AllocationReport(given.id, given.fence, observed, 0 if observed is Observed.EXITED else None, self.bytes)
        self._client.sync(SyncRequest(self._epoch, self._next(), self._boot, "", 0.0, (told,)))

    def _beat(self) -> None:
        self._client.beat(BeatRequest(self._epoch, self._next(), self._boot), timeout_s=10.0)

    def _next(self) -> int:
        self._seq += 1
        return self._seq


def rate_mb_s(written: list[tuple[int, float]]) -> float:
    """Megabytes (10^6 bytes) a second of all writers together, who began at one moment."""
    return sum(size for size, _ in written) / max(seconds for _, seconds in written) / 1e6


def main() -> int:
    """Read the orders, carry them out, and write what came of it."""
    orders = Orders(**json.loads(sys.stdin.readline()))

    def all_write() -> None:
        print(json.dumps({"writing": len(orders.tokens)}), flush=True)

    barrier = threading.Barrier(len(orders.tokens), action=all_write, timeout=_PLACED_WITHIN_S)
    enough = threading.Event()
    writers = [Writer(number, token, orders, barrier, enough) for number, token in enumerate(orders.tokens, 1)]
    for writer in writers:
        writer.start()
    sys.stdin.readline()  # returns also when the parent has ended
    enough.set()
    for writer in writers:
        writer.join()
    errors = [writer.error for writer in writers if writer.error]
    if errors:
        print(json.dumps({"errors": errors}))
        return 1
    print(json.dumps({"mb_s": rate_mb_s([(writer.bytes, writer.seconds) for writer in writers])}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
