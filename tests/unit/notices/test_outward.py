"""One POST to where a user said, against real receivers: what is refused, and what slow or endless ones can do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.notices.addresses import Rules, read_networks, read_url
from muster.notices.outward import Limits, NotSent, post

LOCAL = Rules(networks=read_networks("127.0.0.1/32"), ports=((1, 65_535),))
STRICT = Rules(networks=(), ports=((1, 65_535),))
NAME = "hooks.example.org"

Talk = Callable[[socket.socket, bytes], None]


class Receiver:
    """A server that reads the head of each call and then does what the test says."""

    def __init__(self, talk: Talk, *, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[bytes] = []
        self._talk, self._tls = talk, tls
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(peer, server_side=True) if self._tls else peer as stream:
                head = b""
                while b"\r\n\r\n" not in head:
                    data = stream.recv(65_536)
                    if not data:
                        return
                    head += data
                # All of the call is read: closing before would make the system take the answer back.
                while not head.endswith(b'{"a":1}'):
                    head += stream.recv(65_536)
                self.heads.append(head)
                self._talk(stream, head)
        except OSError:
            return  # the caller has gone, as some of these tests want it to

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._thread.join(20)
        self._listener.close()


@contextmanager
def receiver(talk: Talk, **options: Any) -> Iterator[Receiver]:
    running = Receiver(talk, **options)
    try:
        yield running
    finally:
        running.close()


def answer(text: bytes) -> Talk:
    return lambda stream, _: stream.sendall(text)


OK = answer(b"HTTP/1.1 204 No Content\r\n\r\n")


def send(url: str, rules: Rules = LOCAL, limits: Limits | None = None) -> int:
    return post(read_url(url), body=b'{"a":1}', headers={"Webhook-Id": "1"}, rules=rules, limits=limits)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Addresses of names: each resolution takes the next answer, and the last one stays."""
    found: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in found:
            return real(host, port, *args, **kwargs)
        answers = found[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [entry for address in addresses for entry in real(address, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return found


class TestCalls:
    def test_a_call_arrives_with_its_headers_and_body(self, names: dict[str, list[list[str]]]) -> None:
        names[NAME] = [["127.0.0.1"]]
        with receiver(OK) as there:
            assert send(f"http://{NAME}:{there.port}/a/b?c=d") == 204
            (head,) = there.heads
        assert head.startswith(b"POST /a/b?c=d HTTP/1.1\r\n")
        assert f"Host: {NAME}:{there.port}\r\n".encode() in head
        assert b"Webhook-Id: 1\r\n" in head

    def test_a_redirect_is_an_answer_and_is_not_followed(self) -> None:
        with receiver(OK) as other:
            to = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other.port}/\r\nContent-Length: 0\r\n\r\n"
            with receiver(answer(to.encode())) as there:
                assert send(f"http://127.0.0.1:{there.port}/") == 302
            assert other.heads == []

    def test_proxies_of_the_environment_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with receiver(answer(b"HTTP/1.1 502 Bad\r\n\r\n")) as proxy, receiver(OK) as there:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            assert send(f"http://127.0.0.1:{there.port}/") == 204
            assert proxy.heads == []


class TestAddresses:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
    def test_nothing_reaches_the_platforms_own_machine(self, host: str) -> None:
        with receiver(OK) as there, pytest.raises(NotSent, match="not a public address"):
            send(f"http://{host}:{there.port}/", STRICT)
        assert there.heads == []

    @pytest.mark.parametrize(
        "address", ["169.254.169.254", "10.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "fe80::1", "64:ff9b::a00:1"]
    )
    def test_a_name_of_an_inner_address_is_refused(self, names: dict[str, list[list[str]]], address: str) -> None:
        names[NAME] = [[address]]
        with pytest.raises(NotSent, match="nothing is sent there"):
            send(f"http://{NAME}/", STRICT)

    def test_one_inner_address_among_others_refuses_the_name(self, names: dict[str, list[list[str]]]) -> None:
        names[NAME] = [["127.0.0.1", "10.0.0.1"]]
        with receiver(OK) as there, pytest.raises(NotSent, match=r"10\.0\.0\.1"):
            send(f"http://{NAME}:{there.port}/")
        assert there.heads == []

    def test_a_name_that_changes_after_the_check_is_not_asked_again(self, names: dict[str, list[list[str]]]) -> None:
        names[NAME] = [["127.0.0.1"], ["::1"]]
        with receiver(OK) as checked, receiver(OK, address="::1", port=checked.port) as swapped:
            assert send(f"http://{NAME}:{checked.port}/") == 204
            assert (len(checked.heads), len(swapped.heads)) == (1, 0)
            with pytest.raises(NotSent, match="::1 is not a public address"):
                send(f"http://{NAME}:{checked.port}/")
            assert (len(checked.heads), len(swapped.heads)) == (1, 0)

    def test_a_name_that_nobody_knows_is_said_to_be_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(NotSent, match="cannot be resolved"):
            send(f"http://{NAME}/")

    def test_a_port_that_is_not_allowed_is_not_tried(self) -> None:
        with receiver(OK) as there, pytest.raises(NotSent, match="port"):
            send(f"http://127.0.0.1:{there.port}/", Rules(LOCAL.networks, ((443, 443),)))
        assert there.heads == []


class TestBadReceivers:
    def test_one_that_never_answers_costs_the_deadline_and_no_more(self) -> None:
        gone = threading.Event()
        with receiver(lambda stream, _: gone.wait(60) and None) as there:
            with pytest.raises(NotSent, match="no answer within"):
                send(f"http://127.0.0.1:{there.port}/", limits=Limits(deadline_s=0.3))
            gone.set()

    def test_one_that_sends_a_byte_now_and_then_does_not_stretch_the_deadline(self) -> None:
        gone = threading.Event()

        def drip(stream: socket.socket, _: bytes) -> None:
            stream.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not gone.wait(0.02):
                stream.sendall(b"x")

        with receiver(drip) as there:
            with pytest.raises(NotSent, match="no answer within"):
                send(f"http://127.0.0.1:{there.port}/", limits=Limits(deadline_s=0.5))
            gone.set()

    def test_a_name_server_that_never_answers_costs_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: gone.wait(60) and [])
        with pytest.raises(NotSent, match="no answer within"):
            send(f"http://{NAME}/", limits=Limits(deadline_s=0.3))
        gone.set()

    @pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n"])
    def test_one_whose_head_never_ends_is_left(self, beginning: bytes) -> None:
        def flood(stream: socket.socket, _: bytes) -> None:
            stream.sendall(beginning)
            while True:
                stream.sendall(b"X: " + b"x" * 4000 + (b"\r\n" if beginning.endswith(b"\r\n") else b""))

        with receiver(flood) as there, pytest.raises(NotSent):
            send(f"http://127.0.0.1:{there.port}/")

    def test_of_an_endless_body_nothing_is_read(self) -> None:
        stopped = threading.Event()

        def flood(stream: socket.socket, _: bytes) -> None:
            try:
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
                while True:
                    stream.sendall(b"x" * 65_536)
            except OSError:
                stopped.set()

        with receiver(flood) as there:
            assert send(f"http://127.0.0.1:{there.port}/") == 200
            assert stopped.wait(20)

    @pytest.mark.parametrize("text", [b"220 mail.example.org ESMTP\r\n", b"\x15\x03\x01\x00\x02\x02\x16", b""])
    def test_one_that_speaks_no_http_is_an_error_that_can_be_read(self, text: bytes) -> None:
        with receiver(answer(text)) as there, pytest.raises(NotSent) as refused:
            send(f"http://127.0.0.1:{there.port}/secret-path")
        assert "secret-path" not in str(refused.value)

    def test_one_that_does_not_listen_is_said_to_refuse(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # no other process gets the port, and this one does not listen
            with pytest.raises(NotSent, match="no connection"):
                send(f"http://127.0.0.1:{bound.getsockname()[1]}/")


class TestEncryption:
    @pytest.fixture
    def certificate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
        """A server's side for `hooks.example.org`, by an authority that this process trusts."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file, key_file)
        return context

    def test_the_name_is_what_tls_asks_for_and_checks(
        self, certificate: ssl.SSLContext, names: dict[str, list[list[str]]]
    ) -> None:
        asked: list[str | None] = []
        certificate.sni_callback = lambda _socket, name, _context: asked.append(name)
        names[NAME] = [["127.0.0.1"]]
        with receiver(OK, tls=certificate) as there:
            assert send(f"https://{NAME}:{there.port}/") == 204
        assert asked == [NAME]

    def test_a_certificate_of_another_name_is_refused(
        self, certificate: ssl.SSLContext, names: dict[str, list[list[str]]]
    ) -> None:
        names["other.example.org"] = [["127.0.0.1"]]
        with receiver(OK, tls=certificate) as there, pytest.raises(NotSent, match="no connection"):
            send(f"https://other.example.org:{there.port}/")
        assert there.heads == []
