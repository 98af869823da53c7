"""The routes of the agents' protocol, on the asynchronous side: a long-poll holds no thread and no connection.

Beats and syncs, which a thousand agents send all the time, are answered in batches: see `muster.common.gathering`.
Calls that may wait for a lock are handled one by one.

Every handler authenticates the caller before it reads the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from muster.agents import batches, services
from muster.agents.desired import DesiredSet, desired_sets
from muster.agents.refusals import Handler, audit_refusal, audited
from muster.agents.restored import take_report
from muster.agents.samples import store_samples
from muster.common.asgi import in_thread, read_body, store_in_thread
from muster.common.errors import Invalid, MusterError
from muster.common.gathering import Gathered
from muster.events.hub import hub
from muster.events.redis import node_channel
from muster.fleet.leases import (
    Renewal,
    Unauthorized,
    known,
    nodes_of_credentials,
    renew_free,
    require_epoch,
    require_secret,
)
from muster.fleet.models import Node
from muster.jobs.models import Allocation
from muster.jobs.submit.uploads import open_code
from muster.logs.store import Chunk, Gap
from muster.outputs import store as outputs_store
from nodeagent.protocol.calls import (
    CONTENT_RANGE_HEADER,
    CRC32_HEADER,
    DROPPED_HEADER,
    FENCE_HEADER,
    SHA256_HEADER,
    crc32_hex,
)
from nodeagent.protocol.messages import (
    MAX_CHUNK_BYTES,
    BatchItem,
    BatchResponse,
    BeatRequest,
    HelloRequest,
    ItemOutcome,
    Message,
    OutputsFinishRequest,
    OutputsRequest,
    ProtocolError,
    RegisterRequest,
    SyncRequest,
)
from scheduler.model.lifecycle import NodeHealth

MAX_BODY_BYTES = 4 << 20
READ_AGAIN_AFTER_S = 5.0
GATHERED_EVERY_S = 0.05

_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/\*")
_DROPPED = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")

M = TypeVar("M", bound=Message)


_nodes: Gathered[str, None, Node | None] = Gathered(nodes_of_credentials, every_s=GATHERED_EVERY_S)
_renewals: Gathered[Node, Renewal, bool] = Gathered(renew_free, every_s=GATHERED_EVERY_S)
# A launch waits for its claim: so these rounds follow each other without a pause.
_speakers: Gathered[str, None, Node | None] = Gathered(nodes_of_credentials, every_s=0.0)
_desired_sets: Gathered[Node, None, DesiredSet] = Gathered(desired_sets, every_s=GATHERED_EVERY_S)
_samples: Gathered[Node, SyncRequest, None] = Gathered(store_samples, every_s=GATHERED_EVERY_S)


async def hello(request: Request) -> Response:
    """Give out the nonce of the next registration."""
    secret = await _enrolling_secret(request)
    message = await read_message(request, HelloRequest)
    answer = await in_thread(services.greet_agent, secret, message)
    return JSONResponse(answer.to_dict())


async def register(request: Request) -> Response:
    """Enrol an agent, or let it come back."""
    secret = await _enrolling_secret(request)
    body = await read_json(request)
    services.require_protocol(body)
    answer = await in_thread(services.register_agent, secret, _message_of(body, RegisterRequest))
    return JSONResponse(answer.to_dict())


async def beat(request: Request) -> Response:
    """Renew the lease."""
    node = await _node(request)
    message = await read_message(request, BeatRequest)
    if node.health == NodeHealth.READY and await _renewals.ask(node, Renewal(message.epoch, message.seq)):
        answer = services.beat_answer(node)
    else:
        answer = await in_thread(services.beat, node, message)
    return JSONResponse(answer.to_dict())


async def sync(request: Request) -> Response:
    """Exchange what runs for what should run; wait for news if there is none."""
    node = await _node(request)
    message = await read_message(request, SyncRequest)
    require_epoch(node=node, epoch=message.epoch)
    loop = asyncio.get_running_loop()
    until = loop.time() + min(max(message.wait_s, 0.0), services.SYNC_WAIT_S)
    with hub.waiter(node_channel(node.pk)) as waiter:
        if node.must_report:
            await in_thread(take_report, node, message)
        desired = await _desired_sets.ask(node, None)
        if services.brings_news(message, desired):
            await in_thread(services.take_news, node, message, desired)
        if services.tells_of_disk(node, message):
            await in_thread(services.take_disk, node, message)
        if services.brings_samples(message):
            await _samples.ask(node, message)
        while desired.generation == message.generation and (left_s := until - loop.time()) > 0:
            await waiter.wait(min(left_s, READ_AGAIN_AFTER_S))
            if await request.is_disconnected():
                break
            desired = await _desired_sets.ask(node, None)
    return JSONResponse(services.sync_answer(node, desired).to_dict())


async def batch(request: Request) -> Response:
    """Take claims, ends and ends of logs, and answer each item for itself."""
    node = await _node(request, _speakers)
    read = batches.read_items(await read_json(request))
    items = {place: item for place, item in enumerate(read) if isinstance(item, BatchItem)}
    unread = {place: item for place, item in enumerate(read) if isinstance(item, ItemOutcome)}
    outcomes = unread | await batches.apply(node, items)
    for place, item in items.items():
        outcome = outcomes[place]
        if item.claim is not None and outcome.launch is None:
            refusal = {"status": outcome.status, "reason": outcome.detail}
            await audit_refusal(request, refusal, "refused_claim", object_type="allocation", object_id=item.id)
    return JSONResponse(BatchResponse(tuple(outcomes[place] for place in range(len(read)))).to_dict())


async def log(request: Request) -> Response:
    """Append a chunk of a log."""
    allocation = await _allocation(request)
    services.require_fence(allocation, _number(request, FENCE_HEADER))
    body = await read_body(request, largest=MAX_CHUNK_BYTES)
    chunk = _chunk(request, body)
    return await _stored(len(body), lambda: services.port.log(allocation, chunk))


async def outputs(request: Request) -> Response:
    """Give slots to the files that a rank left."""
    allocation = await _allocation(request)
    message = await read_message(request, OutputsRequest)
    answer = await in_thread(services.name_outputs, allocation, message)
    return JSONResponse(answer.to_dict())


async def output(request: Request) -> Response:
    """Append a chunk of a file."""
    allocation = await _allocation(request)
    services.require_fence(allocation, _number(request, FENCE_HEADER))
    body = await read_body(request, largest=MAX_CHUNK_BYTES)
    chunk = _chunk(request, body)
    sha256 = request.headers.get(SHA256_HEADER)
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise Invalid.field(SHA256_HEADER, "write 64 hexadecimal digits")
    file_id: int = request.path_params["file_id"]
    append = partial(outputs_store.append, allocation, file_id, offset=chunk.offset, body=chunk.body, sha256=sha256)
    return await _stored(len(body), append)


async def _stored(size: int, append: Callable[[], int]) -> Response:
    """The answer to a chunk of `size` bytes: what is stored now, 416 where bytes before the chunk are missing."""
    try:
        return JSONResponse({"size": await store_in_thread(size, append)}, status_code=202)
    except (Gap, outputs_store.Gap) as gap:
        return JSONResponse({"size": gap.size}, status_code=416)


async def outputs_finish(request: Request) -> Response:
    """Close the files of a rank."""
    allocation = await _allocation(request)
    message = await read_message(request, OutputsFinishRequest)
    await in_thread(services.finish_outputs, allocation, message)
    return JSONResponse({})


async def code(request: Request) -> Response:
    """The code archive of a job on this node."""
    node, sha256 = await _node(request), request.path_params["sha256"]
    await in_thread(services.require_code_of, node, sha256)
    path = await in_thread(open_code, sha256)
    return FileResponse(path, media_type="application/gzip", filename=f"{sha256}.tar.gz")


async def _node(request: Request, rounds: Gathered[str, None, Node | None] = _nodes) -> Node:
    node = await rounds.ask(secret_of(request), None)
    # What a refusal says is read from the database.
    return node if node is not None else await in_thread(known, None)


async def _enrolling_secret(request: Request) -> str:
    """The secret of an agent that enrols, once it is known to be a credential or a join token of a node."""
    secret = secret_of(request)
    await in_thread(require_secret, secret)
    return secret


async def _allocation(request: Request) -> Allocation:
    return await in_thread(services.allocation_of, secret_of(request), _id(request))


async def read_message(request: Request, kind: type[M], *, largest: int = MAX_BODY_BYTES) -> M:
    """The message of the body; what it is not is an error that names the field."""
    return _message_of(await read_json(request, largest=largest), kind)


def _message_of(body: object, kind: type[M]) -> M:
    try:
        return kind.from_dict(body)
    except ProtocolError as error:
        raise Invalid.field(error.field or "message", error.problem) from error


async def read_json(request: Request, *, largest: int = MAX_BODY_BYTES) -> object:
    """The body, read as JSON."""
    body = await read_body(request, largest=largest)
    try:
        return json.loads(body)
    except RecursionError as error:
        raise MusterError("the body nests too deeply") from error
    except ValueError as error:
        raise MusterError("the body is not JSON") from error


def secret_of(request: Request) -> str:
    """The credential, or the join token, that the call carries."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("send the node's credential: Authorization: Bearer …")
    return secret.strip()


def _id(request: Request) -> int:
    number: int = request.path_params["id"]
    return number


def _number(request: Request, header: str) -> int:
    text = request.headers.get(header, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Invalid.field(header, "send a whole number")
    return int(text)


def _chunk(request: Request, body: bytes) -> Chunk:
    match = _RANGE.fullmatch(request.headers.get(CONTENT_RANGE_HEADER, ""))
    if not match:
        raise Invalid.field(CONTENT_RANGE_HEADER, "write bytes FIRST-LAST/*")
    first, last = int(match[1]), int(match[2])
    if last - first + 1 != len(body):
        raise Invalid.field(CONTENT_RANGE_HEADER, f"it names {last - first + 1} bytes, and the body has {len(body)}")
    checksum = crc32_hex(body)
    if request.headers.get(CRC32_HEADER, "").lower() != checksum:
        raise Invalid.field(CRC32_HEADER, "it is not the checksum of the body")
    dropped = request.headers.get(DROPPED_HEADER)
    hole = None
    if dropped is not None:
        parts = _DROPPED.fullmatch(dropped)
        if not parts or int(parts[1]) > int(parts[2]):
            raise Invalid.field(DROPPED_HEADER, "write FIRST-LAST")
        hole = (int(parts[1]), int(parts[2]) + 1)
    return Chunk(offset=first, body=body, crc32=int(checksum, 16), dropped=hole)


def _post(path: str, handler: Handler) -> Route:
    return Route(path, handler, methods=["POST"])


# They are tried in this order: what comes most often stands first.
ROUTES = [
    _post("/agent/v1/beat", beat),
    _post("/agent/v1/sync", sync),
    _post("/agent/v1/batch", audited(batch, "refused_claim", object_type="allocation")),
    _post("/agent/v1/hello", audited(hello, "refused_registration", object_type="node")),
    _post("/agent/v1/register", audited(register, "refused_registration", object_type="node")),
    Route("/agent/v1/allocations/{id:int}/log", log, methods=["PATCH"]),
    _post("/agent/v1/allocations/{id:int}/outputs", outputs),
    Route("/agent/v1/allocations/{id:int}/outputs/{file_id:int}", output, methods=["PATCH"]),
    _post("/agent/v1/allocations/{id:int}/outputs:finish", outputs_finish),
    Route("/agent/v1/code/{sha256}", code, methods=["GET"]),
]
