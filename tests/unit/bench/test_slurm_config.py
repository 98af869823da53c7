"""The configuration of the peer: what its programs are told to use, and that it is all the bench's own."""

from __future__ import annotations

from pathlib import Path

from bench.slurm.config import PROFILES, Layout, gres_conf, slurm_conf

LAYOUT = Layout(Path("/tmp/x"), "host", 7001, (7002, 7003), gpus_per_node=8)


def _settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith(("Node", "Part")))


def test_every_path_and_port_is_the_instances_own() -> None:
    settings = _settings(slurm_conf(LAYOUT, PROFILES[0]))
    paths = [value for value in settings.values() if value.startswith("/") and value != "/bin/true"]
    assert paths
    assert all(path.startswith("/tmp/x/") for path in paths)
    assert settings["SlurmctldPort"] == "7001"
    assert settings["AuthInfo"] == "socket=/tmp/x/munge.socket"


def test_each_node_has_a_port_and_gpus_of_its_own() -> None:
    nodes = [line for line in slurm_conf(LAYOUT, PROFILES[0]).splitlines() if line.startswith("NodeName")]
    assert [word for line in nodes for word in line.split() if word.startswith("Port=")] == ["Port=7002", "Port=7003"]
    assert gres_conf(LAYOUT).splitlines() == [
        "NodeName=n1 Name=gpu Type=a100 File=/tmp/x/gpu[0-7]",
        "NodeName=n2 Name=gpu Type=a100 File=/tmp/x/gpu[8-15]",
    ]


def test_the_first_profile_changes_no_scheduling_parameter() -> None:
    assert not PROFILES[0].settings
    assert "SchedulerParameters" not in slurm_conf(LAYOUT, PROFILES[0])


def test_the_profiles_differ_in_nothing_but_their_settings() -> None:
    plain, tuned = (_settings(slurm_conf(LAYOUT, profile)) for profile in PROFILES)
    assert {name for name in tuned if plain.get(name) != tuned[name]} == set(PROFILES[1].settings)
