"""Archives of code that cost more than they look: what both the platform and the agent must refuse cheaply."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable

LARGE = 64 << 20
"""Bytes to which each of the large ones unpacks, at least; one is a few dozen KiB as it is sent."""
MEMORY_BYTES = 4 << 20
"""The most memory for a look at any of them."""


def block(name: str, kind: bytes, size: int = 0) -> bytes:
    """The header of an entry, alone."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)  # which knows sizes below zero


def zipped(*parts: bytes | int) -> bytes:
    """A gzip stream with these bytes; a number stands for that many zero bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as stream:
        for part in parts:
            if isinstance(part, bytes):
                stream.write(part)
                continue
            for begin in range(0, part, 1 << 20):
                stream.write(bytes(min(1 << 20, part - begin)))
    return buffer.getvalue()


def tar(*files: tuple[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    """An honest archive of files and, where a name ends in a slash, folders."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=kind) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name.rstrip("/"))
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def padded(data: bytes) -> bytes:
    """The data, filled up to a whole block."""
    return data + bytes(-len(data) % 512)


def record(key: str, value: str) -> bytes:
    """A record of a pax header."""
    rest = f" {key}={value}\n"
    size = len(rest)
    while len(f"{size}{rest}") != size:
        size = len(f"{size}{rest}")
    return f"{size}{rest}".encode()


def pax(*records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header with records that goes before an entry."""
    text = b"".join(records)
    return block("pax", kind, len(text)) + padded(text)


def deep(levels: int) -> str:
    """The name of a file below that many folders."""
    return "a/" * levels + "f"


def _sparse_map() -> Iterable[bytes | int]:
    """A pax header that announces a map of holes, which `tarfile` reads into a list before anybody sees the entry."""
    yield pax(record("GNU.sparse.major", "1"), record("GNU.sparse.minor", "0"), record("GNU.sparse.name", "f"))
    yield block("f", tarfile.REGTYPE, LARGE)
    yield padded(b"9999999\n") + b"0\n" * (LARGE // 16)


HEADERS: dict[str, bytes] = {
    "a large pax header": zipped(block("p", tarfile.XHDTYPE, LARGE), LARGE),
    "a large pax header for all": zipped(block("p", tarfile.XGLTYPE, LARGE), LARGE),
    "a large Solaris header": zipped(block("p", tarfile.SOLARIS_XHDTYPE, LARGE), LARGE),
    "a large long name": zipped(block("p", tarfile.GNUTYPE_LONGNAME, LARGE), LARGE),
    "a large long link": zipped(block("p", tarfile.GNUTYPE_LONGLINK, LARGE), LARGE),
    "a large map of holes": zipped(*_sparse_map()),
    "an old file with holes": zipped(block("f", tarfile.GNUTYPE_SPARSE, 512), 2048),
    "headers before headers": zipped(pax(record("comment", "x")) * 5000, block("f", tarfile.REGTYPE), 1024),
    "headers and no entry": zipped(block("p", tarfile.XHDTYPE) * 100_000),
    "records that never end": zipped(pax(b"0 a=b\n"), block("f", tarfile.REGTYPE), 1024),
    "a record without its length": zipped(pax(b"path=x\n"), block("f", tarfile.REGTYPE), 1024),
    "a record longer than the header": zipped(pax(b"999 path=x\n"), block("f", tarfile.REGTYPE), 1024),
    "a negative size": zipped(block("f", tarfile.REGTYPE, -512), 1024),
    "a negative size in a header before": zipped(pax(record("size", "-512")), block("f", tarfile.REGTYPE), 1024),
    "a header of negative size": zipped(block("p", tarfile.XHDTYPE, -512), block("f", tarfile.REGTYPE), 1024),
    "another name for all": zipped(pax(record("path", "x"), kind=tarfile.XGLTYPE), block("f", tarfile.REGTYPE), 1024),
}
"""By what is wrong with their headers."""

COSTLY: dict[str, bytes] = {
    "records without end": zipped((pax(b"5 a=\n" * 13_000) + block("f", tarfile.REGTYPE)) * 100, 1024),
    "headers without end": zipped((pax(bytes(60_000)) + block("f", tarfile.REGTYPE)) * 1150, 1024),
}
"""By what all of their headers, each a lawful one, cost together."""

PATHS: dict[str, bytes] = {
    "a folder too deep": tar((deep(1200), b"")),
    "a level too many": tar((deep(64), b"")),
    "an old long name too deep": tar((deep(1200), b""), kind=tarfile.GNU_FORMAT),
    "a long name": tar(("n" * 256, b"")),
    "a long path": tar((("n" * 200 + "/") * 6 + "f", b"")),
}
"""By where their entries would lie."""
