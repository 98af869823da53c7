"""The metrics token of the environment and of the state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.settings.env import secret


def test_a_metrics_token_is_made_once_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_METRICS_TOKEN", raising=False)
    token = secret("MUSTER_METRICS_TOKEN", tmp_path / "metrics_token", size=32)
    assert len(token) >= 32
    again = secret("MUSTER_METRICS_TOKEN", tmp_path / "metrics_token", size=32)
    assert again == token == (tmp_path / "metrics_token").read_text()
    assert (tmp_path / "metrics_token").stat().st_mode & 0o777 == 0o600


def test_the_environments_metrics_token_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_METRICS_TOKEN", "sesame")
    assert secret("MUSTER_METRICS_TOKEN", tmp_path / "metrics_token", size=32) == "sesame"
