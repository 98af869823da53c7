"""The command that tells why a job failed from its log; it talks to no server.

The rules need an engine for patterns that most who install the client never use, so it is imported when the command
runs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich.text import Text

from muster_client.commands.options import JsonFlag
from muster_client.errors import EXIT_USAGE, UsageError
from muster_client.local.terminal import clean
from muster_client.session import begin

if TYPE_CHECKING:
    from scheduler.diagnosis.failures import Tail, Verdict

_STDIN = "-"
_BLOCK_BYTES = 1 << 20

ADVICE = {
    "no": "Do not try again before something is changed.",
    "yes": "Try again; it may well succeed.",
    "maybe": "Decide yourself whether to try again.",
    "elsewhere": "Try again on another GPU or node.",
}


@dataclass(frozen=True, slots=True)
class _Ends:
    """The beginning and the end of a log, and how many lines ended between them."""

    data: bytes
    cut_at: int | None = None
    cut_lines: int = 0


def explain_command(
    ctx: typer.Context,
    *,
    files: Annotated[list[str], typer.Argument(metavar="FILE|-...", help="Logs; - reads standard input.")],
    exit_status: Annotated[
        int | None,
        typer.Option("--exit-status", metavar="N", help="What the program ended with, as a clue.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell why a job failed from its log, without a server."""
    session = begin(ctx, as_json=as_json)
    try:
        from scheduler.diagnosis.failures import Tail, classify  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise UsageError(f"muster explain needs {error.name}: pip install google-re2") from None
    unreadable = False
    for number, name in enumerate(files):
        try:
            tail = _tail(Tail, name)
        except OSError as error:
            unreadable = True
            session.output.error(UsageError(f"{clean(name)} cannot be read: {error.strerror or error}"))
            continue
        verdict = classify([tail], status=exit_status)
        if as_json:
            session.output.line(_document(name, verdict))
            continue
        session.output.answer(None, *_lines(name if len(files) > 1 else "", verdict, first=number == 0))
    if unreadable:
        raise typer.Exit(EXIT_USAGE)


def _tail(make: type[Tail], name: str) -> Tail:
    if name == _STDIN:
        ends = _ends(sys.stdin.buffer)
    else:
        with Path(name).open("rb") as stream:
            ends = _ends(stream)
    return make(data=ends.data, cut_at=ends.cut_at, cut_lines=ends.cut_lines)


def _ends(stream: BinaryIO) -> _Ends:
    """The beginning and end of a stream that the classifier looks at, in bounded memory."""
    from scheduler.diagnosis.failures.text import HEAD_BYTES, TAIL_BYTES  # noqa: PLC0415 - see above

    head, kept, cut_bytes, cut_lines = b"", b"", 0, 0
    while block := stream.read(_BLOCK_BYTES):
        missing = HEAD_BYTES - len(head)
        head, kept = head + block[:missing], kept + block[missing:]
        over = (len(kept) - TAIL_BYTES) // 2 * 2
        if over > 0:
            cut_bytes, cut_lines = cut_bytes + over, cut_lines + kept.count(b"\n", 0, over)
            kept = kept[over:]
    if not cut_bytes:
        return _Ends(head + kept)
    return _Ends(head + kept, cut_at=len(head), cut_lines=cut_lines)


def _document(name: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "file": name,
        "class": verdict.failure,
        "category": verdict.category.value,
        "retry": verdict.retry.value,
        "line": verdict.line,
        "hint": verdict.hint,
    }


def _lines(name: str, verdict: Verdict, *, first: bool) -> list[Text]:
    from scheduler.diagnosis.failures import title_of  # noqa: PLC0415 - as in explain_command

    words = title_of(verdict.failure, line=verdict.line)
    title = Text(f"{clean(name)}: {words}" if name else words, style="bold")
    title.append(f"  ({verdict.category.value.replace('_', ' ')})", style="not bold")
    lines = [title] if first else [Text(), title]
    if verdict.line:
        number = f"line {verdict.line_number}: " if verdict.line_number else ""
        lines.append(Text(f"  {number}{clean(verdict.line)}"))
    lines.append(Text(f"  {ADVICE[verdict.retry.value]}"))
    lines.append(Text(f"  {verdict.hint}"))
    return lines
