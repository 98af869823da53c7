"""Models as bytes: a checked header, a JSON document and NumPy arrays.

Nothing in these bytes is run when they are read. A file that is cut, damaged, of another kind or of another version
raises `ModelError`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"MUSTERPREDICTOR\n"
_LENGTHS = 16  # bytes for the length and the checksum of the body
_DTYPES = frozenset(("<f8", "<i8", "<i4", "|i1", "|b1", "<u4"))


class ModelError(Exception):
    """The bytes of a stored model cannot be read."""


def pack(kind: str, version: int, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a model. Its document must be JSON; its arrays have numbers or truth values."""
    listed = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    head = json.dumps({"kind": kind, "version": version, "document": document, "arrays": listed}).encode()
    body = zlib.compress(b"\0".join((head, b"".join(array.tobytes() for array in arrays.values()))), 6)
    return _MAGIC + len(body).to_bytes(8, "big") + zlib.crc32(body).to_bytes(8, "big") + body


def unpack(data: bytes, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document and the arrays of a model.

    Raises:
        ModelError: these are not the bytes of a whole model of this kind and version.
    """
    start = len(_MAGIC) + _LENGTHS
    if data[: len(_MAGIC)] != _MAGIC:
        raise ModelError("this is not the file of a predictor")
    if len(data) < start:
        raise ModelError(f"the model file is cut: it has {len(data)} bytes")
    length = int.from_bytes(data[len(_MAGIC) : start - 8], "big")
    body = data[start:]
    if len(body) != length:
        raise ModelError(f"the model file is cut: it has {len(body)} of {length} bytes")
    if zlib.crc32(body) != int.from_bytes(data[start - 8 : start], "big"):
        raise ModelError("the model file is damaged: its checksum differs")
    head, _, raw = zlib.decompress(body).partition(b"\0")
    header = json.loads(head)
    if header["kind"] != kind:
        raise ModelError(f"the model file is of the kind {header['kind']}, not {kind}")
    if header["version"] != version:
        raise ModelError(f"the model file has version {header['version']}, and this release reads version {version}")
    arrays, at = {}, 0
    for name, dtype, shape in header["arrays"]:
        if dtype not in _DTYPES:
            raise ModelError(f"the model file has an array of {dtype}")
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(raw, dtype=dtype, count=count, offset=at).reshape(shape)
        at += arrays[name].nbytes
    return header["document"], arrays
