"""Measures the platform on this machine, beside Slurm where it is installed: `python -m bench`."""

import sys
from pathlib import Path

# Appended, never inserted: `platform` is also a module of the standard library, and that one has to win.
_PLATFORM = str(Path(__file__).resolve().parents[1] / "platform")
if _PLATFORM not in sys.path:
    sys.path.append(_PLATFORM)
