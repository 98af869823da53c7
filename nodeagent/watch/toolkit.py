"""The NVIDIA Container Toolkit's version on a machine: the platform keeps containers away from some versions of it."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess

# The last two are what versions have that are too old for the first.
_PROGRAMS = ("nvidia-ctk", "nvidia-container-toolkit", "nvidia-container-runtime-hook")
_PLACES = "/usr/local/nvidia/toolkit:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
_VERSION = re.compile(r"version:?\s+v?([0-9][\w.+~-]{0,39})", re.IGNORECASE)
_ANSWER_WITHIN_S = 10.0

UNKNOWN = "unknown"

_log = logging.getLogger("nodeagent")


def version() -> str:
    """The toolkit's version; empty where there is none, `UNKNOWN` where it does not say."""
    found = (shutil.which(name) or shutil.which(name, path=_PLACES) for name in _PROGRAMS)
    program = next((path for path in found if path), None)
    if program is None:
        return ""
    try:
        ran = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("%s does not tell its version: %s", program, error)
        return UNKNOWN
    said = _VERSION.search(ran.stdout.decode(errors="replace"))
    if said is None:
        _log.warning("%s does not tell its version: status %d, %r", program, ran.returncode, ran.stdout[:200])
        return UNKNOWN
    return said[1]
