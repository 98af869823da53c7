"""The calls that carry the bytes of a shell, by offset in both directions."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from muster_client.calls.transport import GATEWAY_STATUSES, Transport
from muster_client.errors import ApiError, MusterError, UnreachableError

if TYPE_CHECKING:
    from muster_client.answers.terms import JsonObject

WAIT_S = 20
MAX_INPUT_BYTES = 64 << 10
WINDOW_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class ShellEnd:
    """The end of a shell; `exit_code` is that of its command if the reason is `exited`."""

    reason: str
    detail: str
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server has the input before `size`, and the shell that before `acked`."""

    size: int
    acked: int


class ShellCalls:
    """One shell, with its own token. Its methods may be called from any thread; none is sent again by itself."""

    def __init__(self, http: Transport, shell_id: int) -> None:
        self._http = http
        self._path = f"/shells/{shell_id}"

    def output(self, offset: int) -> tuple[bytes, ShellEnd | None]:
        """Return what the shell wrote from the offset on, once there is something, and how it ended if nothing follows.

        Nothing and no end mean that nothing was written for a while. To ask confirms what is before the offset.
        """
        answer = self._ask("GET", f"{self._path}/output", params={"offset": offset, "wait": WAIT_S})
        return _bytes(answer), _end_of(answer)

    def send(
        self, *, first: int, start: int, data: bytes, over: bool = False, size: tuple[int, int] | None = None
    ) -> Accepted:
        """Send input that begins at `start`; what was sent from `first` on can be sent again. It waits for room."""
        body: JsonObject = {"first": first, "start": start, "data": base64.b64encode(data).decode(), "over": over}
        if size is not None:
            body |= {"rows": size[0], "cols": size[1]}
        answer = self._ask("POST", f"{self._path}/input", json_body=body)
        return Accepted(size=int(answer["size"]), acked=int(answer["acked"]))

    def leave(self) -> None:
        """End the shell."""
        self._ask("POST", f"{self._path}:close")

    def close(self) -> None:
        """Close the connections; the shell goes on for a while."""
        self._http.close()

    def __enter__(self) -> ShellCalls:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _ask(self, method: str, path: str, **options: object) -> JsonObject:
        try:
            return self._http.document(method, path, **options)
        except ApiError as error:
            if error.status in GATEWAY_STATUSES:
                raise UnreachableError(str(error)) from error
            raise


def _bytes(answer: JsonObject) -> bytes:
    try:
        return base64.b64decode(str(answer["data"]), validate=True)
    except (binascii.Error, ValueError, KeyError) as error:
        raise MusterError("The server sent output that is not base64.") from error


def _end_of(answer: JsonObject) -> ShellEnd | None:
    if not answer.get("closed"):
        return None
    code = answer.get("exit_code")
    return ShellEnd(
        reason=str(answer.get("reason") or ""),
        detail=str(answer.get("detail") or ""),
        exit_code=code if isinstance(code, int) else None,
    )
