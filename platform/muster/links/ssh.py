"""An SSH connection to a server: only if it shows the expected host key, and only to run one fixed command.

All that varies goes to the command as JSON on its standard input, so no shell parses it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import paramiko

from muster.common.sealed import Unreadable, unseal
from muster.links.keys import HOST_KEY_TYPES, fingerprint_of, is_expected, open_private_key, public_line
from muster.links.models import LinkState, Server
from muster.links.progress import Failed

CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0
MAX_OUTPUT_BYTES = 256 << 10
# A peer that acknowledges nothing for so long is gone (TCP_USER_TIMEOUT).
_UNACKNOWLEDGED_MS = 30_000

# Reads one line, a JSON list of words, and becomes Python with these. A byte at a time: what comes after the line is
# for the program that it becomes.
_LAUNCHER = """\
import json, os, sys
if sys.version_info < (3, 9):
    sys.stderr.write("python3 is " + sys.version.split()[0] + ", and the agent needs 3.9 or newer")
    sys.exit(65)
line = b""
while not line.endswith(b"\\n"):
    part = os.read(0, 1)
    if part == b"":
        sys.exit(66)
    line += part
os.execv(sys.executable, [sys.executable] + json.loads(line.decode()))
"""
# The only command that is ever run: it has no line ends, which some shells do not take between quotes.
COMMAND = f"exec python3 -I -c {shlex.quote(f'exec({json.dumps(_LAUNCHER)})')}"

# paramiko tells of each refused connection with a traceback; what failed is in the server's row.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command and its output, as much of it as is kept."""

    status: int
    output: bytes
    errors: str


class Connection:
    """An SSH connection that is signed in."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport

    def run(self, words: Sequence[str], *, timeout_s: float = COMMAND_TIMEOUT_S) -> Ended:
        """Run Python on the server with these words, and return how it ended."""
        until = time.monotonic() + timeout_s
        with contextlib.closing(self.open(words)) as channel:
            output, errors = bytearray(), bytearray()
            channel.settimeout(0.2)
            while not (channel.exit_status_ready() and not channel.recv_ready() and not channel.recv_stderr_ready()):
                if time.monotonic() > until:
                    raise Failed(LinkState.BROKEN, f"a command on the server did not end in {timeout_s:g} s")
                if not self._transport.is_active():
                    raise Failed(LinkState.LOST, "the connection was lost during a command")
                with contextlib.suppress(TimeoutError):
                    data = channel.recv(1 << 15)
                    output += data
                    if not data:  # no output comes any more, and recv would not wait: what is missing is the status
                        channel.status_event.wait(0.2)
                while channel.recv_stderr_ready():
                    errors += channel.recv_stderr(1 << 15)
                if len(output) > MAX_OUTPUT_BYTES or len(errors) > MAX_OUTPUT_BYTES:
                    raise Failed(LinkState.BROKEN, "a command on the server writes without end")
            return Ended(channel.recv_exit_status(), bytes(output), bytes(errors).decode(errors="replace"))

    def open(self, words: Sequence[str]) -> paramiko.Channel:
        """Start Python on the server with these words; the channel is its input and output."""
        try:
            channel = self._transport.open_session(timeout=CONNECT_TIMEOUT_S)
            channel.settimeout(CONNECT_TIMEOUT_S)
            channel.exec_command(COMMAND)
            # Where there is no Python the command may have ended before it is told anything, and its end says why.
            with contextlib.suppress(OSError):
                channel.sendall(json.dumps(list(words)).encode() + b"\n")
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise Failed(LinkState.BROKEN, f"the server runs no command: {_told(error)}") from error
        return channel

    def sftp(self) -> paramiko.SFTPClient:
        """The server's files."""
        try:
            client = paramiko.SFTPClient.from_transport(self._transport)
        except (paramiko.SFTPError, paramiko.SSHException, OSError, EOFError) as error:
            raise Failed(LinkState.UPLOAD_FAILED, f"the server has no SFTP: {_told(error)}") from error
        if client is None:
            raise Failed(LinkState.UPLOAD_FAILED, "the server has no SFTP")
        channel = client.get_channel()
        if channel is not None:
            channel.settimeout(COMMAND_TIMEOUT_S)
        return client

    def close(self) -> None:
        """End the connection and everything on it."""
        self._transport.close()


@contextlib.contextmanager
def connected(server: Server) -> Iterator[Connection]:
    """A connection to the server, or `Failed`."""
    connection = connect(server)
    try:
        yield connection
    finally:
        connection.close()


def connect(server: Server) -> Connection:
    """Connect, look at the host key, and only then sign in; `Failed` tells what went wrong."""
    try:
        key = open_private_key(unseal(server.sealed_key))
    except Unreadable as error:
        raise Failed(LinkState.KEY_UNREADABLE, f"the private key cannot be decrypted: {error}") from error
    transport = _verified(server)
    try:
        transport.auth_publickey(server.user, key)
    except paramiko.AuthenticationException as error:
        transport.close()
        raise Failed(
            LinkState.AUTHENTICATION_REFUSED,
            f"the server refuses user {server.user} with the key {fingerprint_of(server.public_key)}: {_told(error)}",
        ) from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        transport.close()
        raise Failed(LinkState.BROKEN, f"signing in broke off: {_told(error)}") from error
    if not transport.is_authenticated():
        transport.close()
        raise Failed(LinkState.AUTHENTICATION_REFUSED, "the server wants more than a key")
    return Connection(transport)


def _verified(server: Server) -> paramiko.Transport:
    """A connection whose other end has proved that it has the expected host key.

    A server may have keys of several kinds and shows one. A stored key tells which kind to ask for; for a fingerprint
    one kind after the other is asked for.
    """
    expected = server.host_key
    kinds = list(HOST_KEY_TYPES) if expected.startswith("SHA256:") else [expected.split()[0]] if expected else [""]
    shown: list[str] = []
    for kind in kinds:
        transport = _negotiated(server, kind)
        if transport is None:
            continue
        key = transport.get_remote_server_key()
        if expected and is_expected(key, expected):
            return transport
        transport.close()
        shown.append(f"{key.get_name()} {fingerprint_of(public_line(key))}")
    seen = ", ".join(shown) or f"no key of the kind {kinds[0]}"
    if not expected:
        raise Failed(
            LinkState.HOST_KEY_UNKNOWN,
            f"no host key is stored for this server, which shows {seen}; compare that with what the server's "
            "console says, and enter it",
        )
    raise Failed(
        LinkState.HOST_KEY_CHANGED,
        f"the server shows {seen}, and {fingerprint_of(expected)} is expected: it was set up anew, or another "
        "machine answers in its place; nothing was sent to it",
    )


def _negotiated(server: Server, kind: str) -> paramiko.Transport | None:
    """A transport with its keys agreed on, not signed in; None if the server has no host key of this kind."""
    transport = paramiko.Transport(_dialled(server))
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = CONNECT_TIMEOUT_S
    if kind:
        transport.get_security_options().key_types = HOST_KEY_TYPES[kind]
    try:
        transport.start_client(timeout=CONNECT_TIMEOUT_S)
        transport.get_remote_server_key()
    except paramiko.ssh_exception.IncompatiblePeer as error:
        transport.close()
        if kind and "host key" in str(error):
            return None
        raise Failed(LinkState.BROKEN, f"the server speaks no SSH that is safe enough: {_told(error)}") from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        transport.close()
        raise Failed(LinkState.UNREACHABLE, f"what answers there speaks no SSH: {_told(error)}") from error
    return transport


def _dialled(server: Server) -> socket.socket:
    where = f"{server.host} port {server.port}"
    try:
        dialled = socket.create_connection((server.host, server.port), timeout=CONNECT_TIMEOUT_S)
    except socket.gaierror as error:
        raise Failed(LinkState.NAME_UNRESOLVED, f"the name {server.host} is not known: {error.strerror}") from error
    except TimeoutError as error:
        raise Failed(LinkState.UNREACHABLE, f"{where} does not answer in {CONNECT_TIMEOUT_S:g} s") from error
    except (OSError, UnicodeError) as error:
        raise Failed(LinkState.UNREACHABLE, f"{where} cannot be reached: {_told(error)}") from error
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return dialled


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
