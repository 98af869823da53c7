"""Start of the processes of a local platform."""

from __future__ import annotations

from pathlib import Path

from muster.local.children import AgentOptions, Site, agent


def test_an_agent_finds_its_join_token_in_a_private_file(tmp_path: Path) -> None:
    options = AgentOptions(name="gpu1", gpus="none", cpus=1, memory_mib=1, join_token="mjoin_secret")
    child = agent(Site(home=tmp_path, port=8000, services={}), options, folder=tmp_path / "agents")
    assert "mjoin_secret" not in " ".join([*child.argv, *child.env.values()])
    token_file = Path(child.argv[child.argv.index("--join-token-file") + 1])
    assert token_file.read_text() == "mjoin_secret"
    assert token_file.stat().st_mode & 0o777 == 0o600
