"""Reading request bodies: JSON and YAML, plain data only, and no more of it than a path accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from muster.common.errors import MusterError, TooLarge
from muster.jobs.spec.documents import read_json, read_yaml

MAX_BODY_BYTES = 1 << 20
MAX_BATCH_BYTES = 8 << 20


class LengthRequired(MusterError, status=411, code="length-required", title="Send the length of the body"):
    """The body comes in chunks, without a length. WSGI would read it as an empty one."""


def require_length(request: Request) -> None:
    """Return if the length of the body is known, and raise `LengthRequired` if not."""
    if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
        raise LengthRequired("send the body with a Content-Length, not in chunks")


class _Parser(BaseParser):
    max_bytes: ClassVar[int] = MAX_BODY_BYTES

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """The value of the document; `TooLarge` before more of it than allowed is read."""
        request = (parser_context or {}).get("request")
        length = request.META.get("CONTENT_LENGTH") if isinstance(request, Request) else None
        if str(length or "").isdigit() and int(str(length)) > self.max_bytes:
            raise self._too_large()
        body = stream.read(self.max_bytes + 1)
        if len(body) > self.max_bytes:
            raise self._too_large()
        return self.read(body)

    def read(self, body: bytes) -> object:
        """The value that the bytes spell."""
        raise NotImplementedError

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body may have at most {self.max_bytes >> 20} MiB")


class JsonParser(_Parser):
    """`application/json`."""

    media_type = "application/json"

    def read(self, body: bytes) -> object:
        """The value of a JSON document; an empty body is an empty object."""
        return read_json(body) if body.strip() else {}


class BatchParser(JsonParser):
    """`application/json` with room for a thousand specs."""

    max_bytes = MAX_BATCH_BYTES


class YamlParser(_Parser):
    """`application/yaml`."""

    media_type = "application/yaml"

    def read(self, body: bytes) -> object:
        """The value of a YAML document."""
        return read_yaml(body)


class TextYamlParser(YamlParser):
    """`text/yaml`, as some clients call it."""

    media_type = "text/yaml"


class AlwaysJson(BaseContentNegotiation):
    """The answers are JSON, whatever a client says it would like: an error must never come as a 406."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """The parser for the body's type, or None."""
        sent = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == sent), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """The only renderer."""
        return renderers[0], renderers[0].media_type
