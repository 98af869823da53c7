"""Build the agent as one file: `python -m nodeagent.cli.build OUT`.

The file is a zipapp with this package and, where it is installed, the pure Python module `pynvml`. Any Python from 3.9
on runs it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import zipapp
from typing import Optional, Sequence

# 1980-01-02: a zip file knows no earlier time, wherever on earth it is made.
_EPOCH_OF_ZIP_S = 315_619_200

_MAIN = """\
import sys
from nodeagent.cli.main import main
sys.exit(main())
"""


def build(target: str) -> None:
    """Write the zipapp to `target`, executable."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as folder:
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(package, os.path.join(folder, "nodeagent"), ignore=ignore)
        pynvml = importlib.util.find_spec("pynvml")
        if pynvml is not None and pynvml.origin is not None and os.path.basename(pynvml.origin) == "pynvml.py":
            shutil.copy(pynvml.origin, os.path.join(folder, "pynvml.py"))
        with open(os.path.join(folder, "__main__.py"), "w", encoding="utf-8") as file:
            file.write(_MAIN)
        _forget_when(folder)
        zipapp.create_archive(folder, target, interpreter="/usr/bin/env python3", compressed=True)


def _forget_when(folder: str) -> None:
    """Let the same sources make the same file, byte for byte: its digest says which agent it is."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            os.chmod(path, 0o644)
            os.utime(path, (_EPOCH_OF_ZIP_S, _EPOCH_OF_ZIP_S))
        os.chmod(place, 0o755)  # noqa: S103 - a folder of sources
        os.utime(place, (_EPOCH_OF_ZIP_S, _EPOCH_OF_ZIP_S))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m nodeagent.cli.build", description="Build the agent as one file.")
    parser.add_argument("target", help="the file to write, such as muster-agent.pyz")
    build(parser.parse_args(arguments).target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
