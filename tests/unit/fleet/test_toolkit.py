"""Versions of the NVIDIA Container Toolkit that keep containers away from a node."""

from __future__ import annotations

import pytest

from muster.fleet.toolkit import safe_runtimes, why_barred


@pytest.mark.parametrize("version", ["1.17.7", "1.17.7-1", "1.17.0", "1.16.2", "1.13.5", "0.9.9", "v1.17.7"])
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_version_that_lets_containers_out_bars_the_node(version: str, runtime: str) -> None:
    reason = why_barred(version, [runtime])
    assert "CVE-2025-23266" in reason
    assert version.removesuffix("-1") in reason
    assert len(reason) <= 300


def test_a_node_that_offers_processes_too_keeps_these_and_says_why_not_containers() -> None:
    assert why_barred("1.17.7", ["process", "docker"]) == ""
    safe, problem = safe_runtimes("1.17.7", ["process", "docker"])
    assert safe == ["process"]
    assert "CVE-2025-23266" in problem
    assert safe_runtimes("1.17.8", ["process", "docker"]) == (["process", "docker"], "")


@pytest.mark.parametrize("version", ["1.17.8", "1.17.10", "1.18.0", "1.18.0-rc.1", "2.0.0", "v1.17.8"])
def test_a_newer_version_does_not(version: str) -> None:
    assert why_barred(version, ["docker"]) == ""


def test_without_a_toolkit_or_without_containers_nothing_is_barred() -> None:
    assert why_barred("", ["docker"]) == ""
    assert why_barred("1.13.5", ["process"]) == ""


@pytest.mark.parametrize("version", ["unknown", "1.17", "x" * 1000, "1.99999999.0"])
def test_a_version_that_cannot_be_read_is_taken_for_an_old_one(version: str) -> None:
    reason = why_barred(version, ["docker"])
    assert "cannot be read" in reason
    assert len(reason) <= 300
