"""Repeated questions to Podman: whether it still answers, and whether it is still the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.runtime.container.engine import About, EngineError
from nodeagent.runtime.podman.engine import PodmanEngine
from tests import engines

FAKE = """#!/bin/sh
echo "$1" >> {folder}/asked
case "$1" in
  info) printf '4.3.1\\n/var/lib/containers/storage\\n' ;;
  version) cat {folder}/version ;;
  ps) exit $(cat {folder}/ps) ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program `podman`, and what it says."""
    (tmp_path / "podman").write_text(FAKE.format(folder=tmp_path))
    (tmp_path / "podman").chmod(0o755)
    (tmp_path / "version").write_text("4.3.1\n")
    (tmp_path / "ps").write_text("0")
    return tmp_path


def test_its_costly_answer_is_asked_for_once_and_a_new_version_is_seen(folder: Path) -> None:
    engine = PodmanEngine({"PATH": f"{folder}:/usr/bin:/bin"})
    first = About("4.3.1", knows_cdi=True, root="/var/lib/containers/storage")
    assert [engine.about() for _ in range(3)] == [first] * 3
    assert (folder / "asked").read_text().split().count("info") == 1
    (folder / "version").write_text("5.0.0\n")
    assert engine.about() == About("5.0.0", knows_cdi=True, root=first.root)


def test_one_whose_storage_no_longer_answers_is_noticed(folder: Path) -> None:
    engine = PodmanEngine({"PATH": f"{folder}:/usr/bin:/bin"})
    engine.about()
    (folder / "ps").write_text("125")
    with pytest.raises(EngineError):
        engine.about()


@pytest.mark.parametrize("engine", ["podman"])
def test_the_real_one_gives_the_same_version_in_both_ways(engine: str) -> None:
    podman = PodmanEngine(engines.podman_environment())
    first = podman.about()
    assert first.version
    assert podman.about() == first
