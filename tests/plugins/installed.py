"""Plug-ins as other people install them: a folder on the path with a module and a distribution's metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scheduler.admission import ADMISSIONS
from scheduler.engine.policy import POLICIES

HERE = Path(__file__).parent


def install(folder: Path, name: str, module: str, entry_points: Mapping[str, str]) -> Path:
    """Put a distribution with this module into a folder that is to be on the path; returns the folder.

    `entry_points` are lines such as `maxmin = maxmin:MaxMin`, by their group.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_")
    (folder / f"{stem}.py").write_text(module, encoding="utf-8")
    metadata = folder / f"{stem}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{line}\n" for group, line in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def install_both(folder: Path) -> Path:
    """Install the policy `maxmin` and the admission `owners`."""
    for name, group, line in (
        ("maxmin", "muster.policies", "maxmin = maxmin:MaxMin"),
        ("owners", "muster.admissions", "owners = owners:Owned"),
    ):
        install(folder, name, (HERE / name / f"{name}.py").read_text(encoding="utf-8"), {group: line})
    return folder


@pytest.fixture
def installed_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both plug-ins on the path, found by their entry points."""
    monkeypatch.syspath_prepend(str(install_both(tmp_path)))
    for registry in (POLICIES, ADMISSIONS):
        monkeypatch.delitem(registry.__dict__, "_classes", raising=False)
    assert "maxmin" in POLICIES.names
    assert "owners" in ADMISSIONS.names
    yield
    for registry in (POLICIES, ADMISSIONS):
        registry.__dict__.pop("_classes", None)
    for name in ("maxmin", "owners"):
        sys.modules.pop(name, None)
