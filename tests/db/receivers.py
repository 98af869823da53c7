"""Real receivers of notices: a mail server and a web server on this machine."""

from __future__ import annotations

import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class MailServer:
    """A mail server that keeps its mail, and refuses some addresses."""

    mails: list[EmailMessage] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    port: int = 0

    async def handle_RCPT(  # noqa: N802 (the server's name for it)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.mails.append(message)
        return "250 OK"

    @property
    def subjects(self) -> list[str]:
        """The subjects of what came in."""
        return [str(mail["Subject"]) for mail in self.mails]


class _Listening(Controller):
    """On any free port."""

    def _trigger_server(self) -> None:
        # Asks for the greeting at the port that was asked for, which was none in particular.
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(settings: Any) -> Iterator[MailServer]:
    """A mail server, and the settings that hand mail in there."""
    there = MailServer()
    controller = _Listening(there, hostname="127.0.0.1", port=0)
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", controller.port
    settings.MAIL_TO_USERS = True
    there.port = controller.port
    try:
        yield there
    finally:
        controller.stop()


@dataclass
class Hook:
    """A receiver of webhooks: what came, and what it answers with."""

    url: str = ""
    status: int = 204
    location: str = ""
    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    wait_for: threading.Event | None = None

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The bodies."""
        return [orjson.loads(body) for _, body in self.calls]


@contextmanager
def hook_server(settings: Any) -> Iterator[Hook]:
    """A receiver on this machine, which the settings let webhooks reach."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.calls.append((dict(self.headers.items()), body))
            if hook.wait_for is not None:
                hook.wait_for.wait(60)
            self.send_response(hook.status)
            if hook.location:
                self.send_header("Location", hook.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the server's name for it)
            """Nothing."""

    settings.WEBHOOK_NETWORKS = "127.0.0.1/32"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
