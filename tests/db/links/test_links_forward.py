"""Calls from a server through a link: only an agent's, in the name of its own node, within limits."""

from __future__ import annotations

import http.server
import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.common.sealed import unseal
from muster.fleet.models import Node, NodeLease
from muster.links.forward import Forwarder
from muster.links.services import add_server
from nodeagent.protocol.calls import HELLO_PATH, REGISTER_PATH
from nodeagent.protocol.frames import ANSWER, MAX_BODY_BYTES, PING, REQUEST, Frame, FrameError, FrameReader
from nodeagent.protocol.messages import HelloRequest, HelloResponse, Message, RegisterRequest
from tests.db.agent_calls import a100, agent_of, inventory
from tests.db.links.test_links_servers import ACCESS
from tests.factories import make_node, make_pool


@dataclass
class Web:
    """A web process that notes what it is asked."""

    url: str = ""
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    answer: bytes = b"{}"


@pytest.fixture
def web() -> Iterator[Web]:
    noted = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _note(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            noted.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(noted.answer)))
            self.end_headers()
            self.wfile.write(noted.answer)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _note  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    noted.url = f"http://127.0.0.1:{server.server_port}"
    yield noted
    server.shutdown()
    server.server_close()
    thread.join()


def ask(web: Web, method: Any, path: Any, body: bytes = b"{}", headers: Any = None) -> int:
    forwarder = Forwarder(web.url)
    head = {"method": method, "path": path, "headers": headers or {}}
    answer = forwarder.answer(Frame(REQUEST, 7, head, body), "the node's own")
    forwarder.close()
    assert (answer.kind, answer.id) == (ANSWER, 7)
    status = answer.head["status"]
    assert isinstance(status, int)
    return status


CALLS = [
    ("POST", "/agent/v1/hello"),
    ("POST", "/agent/v1/register"),
    ("POST", "/agent/v1/beat"),
    ("POST", "/agent/v1/sync"),
    ("POST", "/agent/v1/batch"),
    ("PATCH", "/agent/v1/allocations/12/log"),
    ("POST", "/agent/v1/allocations/12/outputs"),
    ("PATCH", "/agent/v1/allocations/12/outputs/7"),
    ("POST", "/agent/v1/allocations/12/outputs:finish"),
    *(("POST", f"/agent/v1/allocations/12/shells/3/{act}") for act in ("open", "output", "input", "end")),
    ("GET", "/agent/v1/code/" + "a" * 64),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_call_of_an_agent_is_passed_on(web: Web, method: str, path: str) -> None:
    assert ask(web, method, path) == 200
    [(asked, where, headers, _)] = web.asked
    assert (asked, where) == (method, path)
    assert headers["authorization"] == "Bearer the node's own"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs"),
        ("POST", "/agent/v1/../../api/v1/jobs"),
        ("POST", "/agent/v1/beat/../../../admin/"),
        ("POST", "/agent/v1/beat?x=1"),
        ("POST", "/agent/v1/beat#x"),
        ("POST", "/agent/v1/beat\n"),
        ("POST", "/agent/v1/beat HTTP/1.1\r\nHost: x\r\n\r\nGET /admin/"),
        ("POST", "http://elsewhere.example.org/agent/v1/beat"),
        ("POST", "//elsewhere.example.org/agent/v1/beat"),
        ("GET", "/agent/v1/beat"),
        ("DELETE", "/agent/v1/register"),
        ("POST", "/agent/v1/allocations/-1/outputs"),
        ("POST", "/agent/v1/allocations/٣/outputs"),
        ("POST", f"/agent/v1/allocations/{'9' * 40}/outputs"),
        ("GET", "/agent/v1/code/../../../etc/passwd"),
        ("GET", "/metrics"),
        ("post", "/agent/v1/beat"),
        (None, None),
        (["POST"], {"a": 1}),
    ],
)
def test_nothing_else_is_passed_on(web: Web, method: object, path: object) -> None:
    assert ask(web, method, path) == 400
    assert web.asked == []


def test_only_the_headers_of_the_protocol_are_passed_on(web: Web) -> None:
    headers = {
        "Authorization": "Bearer of another node",
        "authorization": "Bearer of another node",
        "Cookie": "sessionid=1",
        "Host": "elsewhere",
        "X-Forwarded-For": "10.0.0.1",
        "Transfer-Encoding": "chunked",
        "Content-Length": "1000000",
        "content-range": "bytes 0-1/*",
        "X-Muster-Fence": "3",
    }
    assert ask(web, "PATCH", "/agent/v1/allocations/1/log", b"ab", headers) == 200
    [(_, _, sent, body)] = web.asked
    assert sent["authorization"] == "Bearer the node's own"
    assert (sent["content-range"], sent["x-muster-fence"], sent["content-length"]) == ("bytes 0-1/*", "3", "2")
    assert not {"cookie", "x-forwarded-for", "transfer-encoding"} & set(sent)
    assert body == b"ab"


@pytest.mark.parametrize("value", ["a\r\nCookie: x", "a\x00", 7, None, "é", "x" * 201])
def test_a_header_that_is_no_text_is_refused(web: Web, value: object) -> None:
    assert ask(web, "POST", "/agent/v1/beat", headers={"X-Muster-Fence": value}) == 400
    assert web.asked == []


@pytest.mark.parametrize("path", ["/agent/v1/hello", "/agent/v1/register"])
def test_a_registration_carries_the_nodes_credential_whatever_the_server_wrote(web: Web, path: str) -> None:
    body = json.dumps({"credential": "of another node", "boot_id": "b"}).encode()
    assert ask(web, "POST", path, body) == 200
    assert json.loads(web.asked[0][3]) == {"credential": "the node's own", "boot_id": "b"}
    for wrong in (b"[]", b"{", b"\xff", b"[" * 100_000):
        assert ask(web, "POST", path, wrong) == 400
    assert len(web.asked) == 1


def test_a_platform_that_is_out_is_no_refusal(web: Web) -> None:
    forwarder = Forwarder("http://127.0.0.1:1")
    head = {"method": "POST", "path": "/agent/v1/beat"}
    assert forwarder.answer(Frame(REQUEST, 1, head, b"{}"), "c").head["status"] == 503
    forwarder.close()


def test_an_answer_that_does_not_fit_is_not_sent(web: Web) -> None:
    web.answer = b"x" * (MAX_BODY_BYTES + 1)
    assert ask(web, "POST", "/agent/v1/sync") == 502


def test_frames_come_out_as_they_went_in_however_they_are_cut() -> None:
    frames = [Frame(PING), Frame(REQUEST, 3, {"method": "POST"}, b"body"), Frame(ANSWER, 2**32 - 1, {"status": 200})]
    data = b"".join(frame.encode() for frame in frames)
    for step in (1, 2, 7, len(data)):
        reader = FrameReader()
        assert [f for i in range(0, len(data), step) for f in reader.feed(data[i : i + step])] == frames


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        struct.pack("!BIII", 9, 1, 0, 0),
        struct.pack("!BIII", REQUEST, 1, 5000, 0),
        struct.pack("!BIII", REQUEST, 1, 0, MAX_BODY_BYTES + 1),
        struct.pack("!BIII", REQUEST, 1, 2, 0) + b"[]",
        struct.pack("!BIII", REQUEST, 1, 2, 0) + b"{x",
        struct.pack("!BIII", REQUEST, 1, 4000, 0) + b"[" * 4000,
        struct.pack("!BIII", REQUEST, 1, 1, 0) + b"\xff",
    ],
)
def test_what_is_no_frame_ends_the_link(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(data)


@pytest.mark.django_db(transaction=True)
def test_one_server_cannot_speak_for_another_node(server: str) -> None:
    pool = make_pool()
    linked = add_server(pool=pool, name="gpu7", access=ACCESS, actor="olga")
    other = agent_of(server, make_node(pool, "other", gpus=1, credential="x" * 40))
    forwarder = Forwarder(server)

    def ask(path: str, message: Message) -> Frame:
        head = {"method": "POST", "path": path, "headers": {"Authorization": f"Bearer {other.secret}"}}
        return forwarder.answer(Frame(REQUEST, 1, head, message.to_json()), unseal(linked.sealed_credential))

    nonce = HelloResponse.from_json(ask(HELLO_PATH, HelloRequest(other.secret)).body).nonce
    told = inventory(a100(0))
    answer = ask(REGISTER_PATH, RegisterRequest(2, "boot-of-gpu7", "1", other.secret, told, nonce, "folder-of-gpu7"))
    forwarder.close()
    assert answer.head["status"] == 200, answer.body
    assert json.loads(answer.body)["node_name"] == "gpu7"
    assert Node.objects.get(name="gpu7").boot_id == "boot-of-gpu7"
    assert NodeLease.objects.get(node__name="other").epoch == other.epoch
    assert Node.objects.get(name="other").boot_id != "boot-of-gpu7"
    other.http.close()
