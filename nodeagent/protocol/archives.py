"""Reads code archives, on the platform and on the agent alike.

An archive comes from a member: one gzip stream with a tar file in it (v7, ustar, GNU or pax). The platform checks it
before storing it; the agent, possibly as root, unpacks it. Both use this reader, so they accept the same archives. An
archive may hold only plain files and folders below one folder. The cost of reading a hostile one is limited:

- All unpacked bytes count, headers and padding included; reading stops at the first byte over the limit.
- A header before an entry, such as one for a long name, has at most 64 KiB, and only a few may follow one another.
  `tarfile` would read any size that such a header declares into memory.
- The headers of an archive together have a limit on bytes and on records: parsing records takes about a hundred times
  as long as unpacking them.
- No entry lies deeper than 64 folders, and its path is valid on the nodes.
- Memory use does not grow with the archive, and there is no recursion.

Only `tarfile`'s parser of a single block is used; it is the same in every Python version that an agent may run on.
"""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO, Dict, Iterator, Optional, Tuple

MAX_DEPTH = 64
"""Names in the path of an entry."""
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_HEADER_BYTES = 64 << 10
MAX_HEADERS_BEFORE_ENTRY = 8
MAX_TOTAL_HEADER_BYTES = 64 << 20
"""Padding included: enough for a long path or times for each of 50,000 entries."""
MAX_RECORDS = 1_000_000
"""In all headers: enough for a dozen times and attributes for each of 50,000 entries."""

_BLOCK_BYTES = 512
_PIECE_BYTES = 64 << 10
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE)
_BEFORE_ENTRY = (*_PAX, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILE = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class UnsafeArchive(Exception):
    """The archive is broken or holds an entry that is not allowed; the message names the entry."""


class TooMuchInArchive(UnsafeArchive):
    """The archive has more entries or bytes than are allowed."""


class _Unpacked:
    """The bytes that a gzip stream unpacks to, counted."""

    def __init__(self, packed: BinaryIO, most: int) -> None:
        self._packed = packed
        self._most = most
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)  # it checks the checksum, too
        self._piece = b""
        self._used = 0
        self.position = 0

    def left(self) -> int:
        """Bytes that are still allowed."""
        return self._most - self.position

    def read(self, most: int) -> bytes:
        """The next bytes, `most` and a piece at most; empty only at the end."""
        if self._used == len(self._piece):
            self._piece, self._used = self._next_piece(), 0
        part = self._piece[self._used : self._used + most]
        self._used += len(part)
        self.position += len(part)
        if self.position > self._most:
            raise self.too_much()
        return part

    def take(self, size: int) -> bytes:
        """Read `size` bytes; fewer only at the end."""
        parts = []
        while size > 0:
            part = self.read(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip_to(self, position: int) -> None:
        """Skip to this position."""
        while self.position < position:
            if not self.read(position - self.position):
                raise UnsafeArchive("it ends too early")

    def end(self) -> None:
        """Read to the end, so that the checksum is compared; only zero bytes may follow the gzip stream."""
        while self.read(_PIECE_BYTES):
            pass
        rest = self._inflate.unused_data or self._packed.read(_PIECE_BYTES)
        while rest:
            if rest.strip(b"\0"):
                raise UnsafeArchive("something follows its gzip stream")
            rest = self._packed.read(_PIECE_BYTES)

    def too_much(self) -> TooMuchInArchive:
        """The error for too many bytes."""
        return TooMuchInArchive("more than {} bytes".format(self._most))

    def _next_piece(self) -> bytes:
        while not self._inflate.eof:
            data = self._inflate.unconsumed_tail or self._packed.read(_PIECE_BYTES)
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise UnsafeArchive("it is not gzip, or damaged: {}".format(error)) from error
            if piece:
                return piece
            if not data and not self._inflate.eof:
                raise UnsafeArchive("it ends too early")
        return b""


class _Headers:
    """The remaining allowance of bytes and records for the headers of an archive."""

    def __init__(self) -> None:
        self._bytes = MAX_TOTAL_HEADER_BYTES
        self._records = MAX_RECORDS

    def count(self, size: int) -> None:
        """Count a header of `size` bytes."""
        self._bytes -= _BLOCK_BYTES + _padded(size)
        if self._bytes < 0:
            raise UnsafeArchive("its headers have more than {} bytes".format(MAX_TOTAL_HEADER_BYTES))

    def count_record(self) -> None:
        """Count a record in a header."""
        self._records -= 1
        if self._records < 0:
            raise UnsafeArchive("its headers have more than {} records".format(MAX_RECORDS))


@dataclass(frozen=True)
class Member:
    """A file or a folder of an archive, valid until the next one is read."""

    name: str
    parts: Tuple[str, ...]
    """The names of its path; empty for the root folder."""
    size: int
    is_folder: bool
    executable: bool
    _unpacked: _Unpacked
    _begin: int

    def content(self) -> Iterator[bytes]:
        """The bytes of a file in pieces; can be read once."""
        end = self._begin + self.size
        while self._unpacked.position < end:
            part = self._unpacked.read(end - self._unpacked.position)
            if not part:
                raise UnsafeArchive("it ends too early")
            yield part


def members(packed: BinaryIO, *, max_entries: int, max_bytes: int) -> Iterator[Member]:
    """The entries of an archive, in its order.

    Raises: UnsafeArchive at the first entry that is not allowed, TooMuchInArchive at the first one over a limit.
    """
    unpacked, headers = _Unpacked(packed, max_bytes), _Headers()
    entries = 0
    while True:
        member = _next_member(unpacked, headers)
        if member is None:
            break
        entries += 1
        if entries > max_entries:
            raise TooMuchInArchive("more than {} entries".format(max_entries))
        if member.size > unpacked.left():
            raise unpacked.too_much()
        begin = unpacked.position
        yield member
        unpacked.skip_to(begin + _padded(member.size))
    if not unpacked.position:
        raise UnsafeArchive("it is empty")
    unpacked.end()


def safe_parts(name: str) -> Tuple[str, ...]:
    """The names of a relative path.

    Raises: UnsafeArchive if the path is absolute, leads out of the folder, or is too deep or too long.
    """
    if name.startswith("/") or "\0" in name:
        raise UnsafeArchive("{!r} is not a relative path".format(name[:200]))
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise UnsafeArchive("{!r} leads out of the folder".format(name[:200]))
    if len(parts) > MAX_DEPTH:
        raise UnsafeArchive("{!r}... lies deeper than {} folders".format(name[:200], MAX_DEPTH))
    sizes = [len(part.encode(errors="replace")) for part in parts]
    if sum(sizes) + len(sizes) > MAX_PATH_BYTES or max(sizes, default=0) > MAX_NAME_BYTES:
        form = "{!r}... is longer than {} bytes, or a name in it than {}"
        raise UnsafeArchive(form.format(name[:200], MAX_PATH_BYTES, MAX_NAME_BYTES))
    return parts


def _next_member(unpacked: _Unpacked, headers: _Headers) -> Optional[Member]:
    """The next entry, with the name and size that the headers before it give; None at the end."""
    name: Optional[str] = None
    size: Optional[int] = None
    for _ in range(MAX_HEADERS_BEFORE_ENTRY + 1):
        block = unpacked.take(_BLOCK_BYTES)
        if not block.strip(b"\0"):
            return None
        header = _header(block)
        if header.type not in _BEFORE_ENTRY:
            return _member(unpacked, block, header, name, header.size if size is None else size)
        if not 0 <= header.size <= MAX_HEADER_BYTES:
            raise UnsafeArchive("a header of {} bytes; {} are allowed".format(header.size, MAX_HEADER_BYTES))
        headers.count(header.size)
        text = unpacked.take(_padded(header.size))[: header.size]
        if len(text) < header.size:
            raise UnsafeArchive("it ends too early")
        if header.type == tarfile.GNUTYPE_LONGNAME:
            name = _text(text.partition(b"\0")[0])
        elif header.type in _PAX:
            fields = _pax_fields(text, headers)
            if header.type == tarfile.XGLTYPE and fields:
                raise UnsafeArchive("a header gives all entries one name or size")
            name = _text(fields[b"path"]) if b"path" in fields else name
            size = _number(fields[b"size"]) if b"size" in fields else size
    raise UnsafeArchive("more than {} headers before an entry".format(MAX_HEADERS_BEFORE_ENTRY))


def _member(unpacked: _Unpacked, block: bytes, header: tarfile.TarInfo, long_name: Optional[str], size: int) -> Member:
    name = header.name if long_name is None else long_name
    kind = block[156:157]
    # In the oldest format a folder is a file whose name ends in a slash, and `header` knows only the short name.
    old_folder = header.isdir() if long_name is None else name.endswith("/")
    is_folder = kind == tarfile.DIRTYPE or (kind == tarfile.AREGTYPE and old_folder)
    if not is_folder and kind not in _FILE:
        raise UnsafeArchive("{!r} is neither a file nor a folder".format(name[:200]))
    parts = safe_parts(name)
    if not is_folder and (not parts or name.endswith("/")):
        raise UnsafeArchive("{!r} is not a file name".format(name[:200]))
    if size < 0:
        raise UnsafeArchive("{!r} has a size of {}".format(name[:200], size))
    return Member(
        name, parts, 0 if is_folder else size, is_folder, bool(header.mode & 0o111), unpacked, unpacked.position
    )


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise UnsafeArchive("it is not a tar file, or damaged: {}".format(error)) from error


def _pax_fields(text: bytes, headers: _Headers) -> Dict[bytes, bytes]:
    """The name and the size of an entry from records of the form `LENGTH NAME=VALUE`."""
    fields = {}
    position = 0
    while position < len(text) and text[position]:
        headers.count_record()
        space = text.find(b" ", position, position + 8)
        digits = text[position:space] if space > 0 else b""
        end = position + (int(digits) if digits.isdigit() else 0)
        equals = text.find(b"=", space + 1, end)
        if equals < 0 or text[end - 1 : end] != b"\n" or end > len(text):
            raise UnsafeArchive("a header that cannot be read")
        key = text[space + 1 : equals]
        if key.startswith(b"GNU.sparse"):
            raise UnsafeArchive("a file with holes; pack it without --sparse")
        if key in (b"path", b"size"):
            fields[key] = text[equals + 1 : end - 1]
        position = end
    return fields


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise UnsafeArchive("{!r} is not a size".format(text[:20]))
    return int(text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
