"""The published data that some tests compare with: MUSTER_DATA, else shared/data beside the checkout."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def data(*parts: str) -> Path:
    """A file or folder of the data; the test is skipped where it is not there."""
    folder = Path(os.environ.get("MUSTER_DATA") or ROOT.parent / "shared" / "data")
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no published data here: {path} (MUSTER_DATA names the folder)")
    return path
