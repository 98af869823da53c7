"""End of Podman's pull when its image is no longer wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.runtime.container.engine import EngineError
from nodeagent.runtime.podman import engine as podman_engine
from nodeagent.runtime.podman.engine import PodmanEngine
from tests.waiting import eventually

ORDERLY = "trap 'echo in order > {folder}/said; exit 1' TERM"
TALKATIVE = "trap 'head -c 1000000 /dev/zero >&2; echo in order > {folder}/said; exit 1' TERM"
DEAF = "trap '' TERM"


def pull_and_give_up(folder: Path, trap: str) -> int:
    """Have a program in Podman's place pull until it is told to end; its number."""
    program = folder / "podman"
    lines = ["#!/bin/sh", trap.format(folder=folder), f"echo $$ > {folder}/pid", "while :; do sleep 0.02; done"]
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    engine = PodmanEngine({"PATH": f"{folder}:/usr/bin:/bin"})
    begun = folder / "pid"
    with pytest.raises(EngineError, match="it was stopped before it started"):
        engine.pull("one.example/image", None, lambda _: None, lambda: not (begun.exists() and begun.read_text()))
    return int(begun.read_text())


@pytest.mark.parametrize("trap", [ORDERLY, TALKATIVE], ids=["orderly", "talkative"])
def test_it_may_leave_the_images_in_order(trap: str, tmp_path: Path) -> None:
    pid = pull_and_give_up(tmp_path, trap)
    assert (tmp_path / "said").read_text() == "in order\n"
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_engine, "_END_PULL_S", 0.1)
    pid = pull_and_give_up(tmp_path, DEAF)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "its end")
