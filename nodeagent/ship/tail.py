"""The newest part of a log, which goes to the platform with the end of its job."""

from __future__ import annotations

from nodeagent.runtime.port import LogSource


def newest(source: LogSource, limit_bytes: int) -> str:
    """The last bytes of a log as text, at most `limit_bytes` of them; fewer if the spool gives some up meanwhile.

    NUL characters are left out: no message may have one.
    """
    kept = bytearray()
    position = max(0, source.end() - limit_bytes)
    while True:
        start, data = source.read(position, limit_bytes)
        if not data:
            break
        kept += data
        position = start + len(data)
    return bytes(kept[-limit_bytes:]).decode("utf-8", errors="replace").replace("\0", "")
