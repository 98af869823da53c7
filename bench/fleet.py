"""Many agents in one process, as the platform hears them: `python -m bench.fleet`, told by JSON on standard input.

Each registers over real HTTP, beats, keeps a long-poll open, and reports with readings of its GPUs, as an agent with
jobs does every ten seconds. Nothing runs on them. They are a process of their own, so that no Python but theirs keeps
their clock waiting. A line on standard output says when all are there and are measured, and a last one what was heard.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from urllib.parse import urlsplit

from nodeagent.protocol import calls
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import (
    BeatRequest,
    GpuInfo,
    GpuSample,
    HelloRequest,
    HelloResponse,
    HostSample,
    Inventory,
    RegisterRequest,
    SyncRequest,
)

REPORT_EVERY_S = 10.0
_REGISTER_AT_ONCE = 8
_REGISTERED_WITHIN_S = 400.0
_MAX_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders for a fleet: one agent for each join token, measured for `seconds` once all are registered."""

    url: str
    tokens: list[str]
    seconds: float
    gpus: int


@dataclass(slots=True)
class Heard:
    """Times of calls, in milliseconds; of long-polls, the delay of their answer beyond the time asked for."""

    report_ms: list[float] = field(default_factory=list)
    beat_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    measuring: bool = False

    def note(self, values: list[float], seconds: float) -> None:
        """Keep a value, unless the agents are still coming."""
        if self.measuring:
            values.append(seconds * 1000)


class Line:
    """One kept HTTP connection."""

    def __init__(self, url: str) -> None:
        self._host, self._port = urlsplit(url).hostname or "", urlsplit(url).port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, path: str, secret: str, body: bytes) -> dict[str, object]:
        """The JSON of the answer; `OSError` for any other end."""
        if self._streams is not None:
            try:
                return await self._call(self._streams, path, secret, body)
            except ConnectionResetError:  # a server ends connections that were idle for seconds
                self.close()
        self._streams = await asyncio.open_connection(self._host, self._port)
        return await self._call(self._streams, path, secret, body)

    async def _call(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, secret: str, body: bytes
    ) -> dict[str, object]:
        reader, writer = streams
        try:
            writer.write(request_bytes(path, self._host, secret, body))
            await writer.drain()
            async with asyncio.timeout(_MAX_ANSWER_S):
                status, length = read_head(await reader.readuntil(b"\r\n\r\n"))
                content = await reader.readexactly(length)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self.close()
            if isinstance(error, ConnectionError) or (
                isinstance(error, asyncio.IncompleteReadError) and not error.partial
            ):
                raise ConnectionResetError(f"{path}: {error!r}") from error
            raise OSError(f"{path}: {error!r}") from error
        if status != 200:
            raise OSError(f"{path}: {status} {content[:200]!r}")
        answer: dict[str, object] = json.loads(content)
        return answer

    def close(self) -> None:
        """End the connection; the next call opens another."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def request_bytes(path: str, host: str, secret: str, body: bytes) -> bytes:
    """A POST of JSON."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{calls.AUTHORIZATION_HEADER}: {calls.bearer(secret)}\r\n"
        f"Content-Type: {calls.JSON_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_head(head: bytes) -> tuple[int, int]:
    """The status and the length of an answer; `ValueError` if it does not tell both."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    if "content-length" not in fields:
        raise ValueError(f"an answer of unknown length: {first}")
    return int(first.split(" ")[1]), int(fields["content-length"])


Turn = Callable[[Line, str], Awaitable[str]]


class FleetAgent:
    """One agent."""

    def __init__(self, number: int, token: str, orders: Orders, heard: Heard) -> None:
        self._url, self._heard, self._chance = orders.url, heard, random.Random(number)
        self._token, self._secret, self._boot = token, f"fleet-{number:04}-{'x' * 32}", f"boot-{number}"
        uuids = [f"GPU-fleet-{number}-{index}" for index in range(orders.gpus)]
        self._inventory = Inventory(
            hostname=f"fleet{number:04}",
            address=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            cpus=64,
            memory_mib=524_288,
            runtimes=("process",),
            gpus=tuple(GpuInfo(index, uuid, "A100", 81_920) for index, uuid in enumerate(uuids)),
        )
        self._gpus = tuple(GpuSample(uuid, 50.0, 40_000, 250.0, 60.0, 1) for uuid in uuids)
        self._numbers = itertools.count(1)
        self._epoch, self._beat_s, self._wait_s = 0, 5.0, 25.0

    async def register(self) -> None:
        """Say hello, and begin; the beats go on from here."""
        line = Line(self._url)
        hello = HelloRequest(self._secret).to_json()
        nonce = HelloResponse.from_dict(await line.call(calls.HELLO_PATH, self._token, hello)).nonce
        request = RegisterRequest(
            protocol.PROTOCOL_VERSION, self._boot, "bench", self._secret, self._inventory, nonce, self._boot
        )
        answer = protocol.RegisterResponse.from_dict(
            await line.call(calls.REGISTER_PATH, self._token, request.to_json())
        )
        line.close()
        self._epoch, self._beat_s, self._wait_s = answer.epoch, answer.timers.beat_s, answer.timers.sync_wait_s

    def conversations(self) -> Iterable[asyncio.Task[None]]:
        """The three that every agent has."""
        return [asyncio.create_task(self._talk(turn)) for turn in (self._beat, self._poll, self._report)]

    async def _talk(self, turn: Turn) -> None:
        line = Line(self._url)
        generation = ""
        try:
            while True:
                try:
                    generation = await turn(line, generation)
                except OSError as error:
                    self._heard.failures.append(str(error))
                    await asyncio.sleep(1)
        finally:
            line.close()

    async def _beat(self, line: Line, generation: str) -> str:
        await asyncio.sleep(self._beat_s * self._chance.uniform(0.9, 1.0))
        request = BeatRequest(self._epoch, next(self._numbers), self._boot)
        start = time.perf_counter()
        await line.call(calls.BEAT_PATH, self._secret, request.to_json())
        self._heard.note(self._heard.beat_ms, time.perf_counter() - start)
        return generation

    async def _poll(self, line: Line, generation: str) -> str:
        start = time.perf_counter()
        answer = await line.call(calls.SYNC_PATH, self._secret, self._sync(generation, self._wait_s))
        took = time.perf_counter() - start
        if took >= self._wait_s:
            self._heard.note(self._heard.late_ms, took - self._wait_s)
        return str(answer["generation"])

    async def _report(self, line: Line, generation: str) -> str:
        await asyncio.sleep(REPORT_EVERY_S * self._chance.uniform(0.5, 1.5))
        start = time.perf_counter()
        await line.call(calls.SYNC_PATH, self._secret, self._sync("", 0.0))
        self._heard.note(self._heard.report_ms, time.perf_counter() - start)
        return generation

    def _sync(self, generation: str, wait_s: float) -> bytes:
        request = SyncRequest(self._epoch, next(self._numbers), self._boot, generation, wait_s)
        if not wait_s:
            request = replace(request, gpus=self._gpus, host=HostSample(20.0, 100_000, 3.0))
        return request.to_json()


async def serve(orders: Orders, begun: Callable[[], None]) -> Heard:
    """Run the fleet. Calls `begun` once all agents are registered, and returns what was heard from then on."""
    heard = Heard()
    agents = [FleetAgent(number, token, orders, heard) for number, token in enumerate(orders.tokens)]
    tasks: list[asyncio.Task[None]] = []
    gate = asyncio.Semaphore(_REGISTER_AT_ONCE)

    async def begin(agent: FleetAgent) -> None:
        async with gate:
            await agent.register()
        tasks.extend(agent.conversations())

    async with asyncio.timeout(_REGISTERED_WITHIN_S):
        await asyncio.gather(*(begin(agent) for agent in agents))
    await asyncio.sleep(REPORT_EVERY_S)
    begun()
    heard.measuring = True
    await asyncio.sleep(orders.seconds)
    heard.measuring = False
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return heard


def main() -> int:
    """Read the orders, carry them out, and write what was heard."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    heard = asyncio.run(serve(orders, lambda: print(json.dumps({"measuring": len(orders.tokens)}), flush=True)))
    print(json.dumps({name: value for name, value in asdict(heard).items() if name != "measuring"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
