"""The environment of a job that a real agent starts as a process."""

from __future__ import annotations

from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.documented import undocumented
from tests.waiting import eventually


def test_a_job_gets_documented_variables_only_and_none_of_the_agents(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.environment = {
        "DATABASE_URL": "secret",
        "MUSTER_SECRET_KEY": "secret",
        "MUSTER_METRICS_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    agent.start()
    number = platform.place("env -0 | tr '\\n\\0' '?\\n'; echo the end", env={"GREETING": "hello"})
    eventually(lambda: "the end" in platform.allocations[number].text, "the environment")
    shown = platform.allocations[number].text
    variables = dict(line.partition("=")[::2] for line in shown.splitlines() if line != "the end")
    assert undocumented(variables) == {"GREETING"}
    assert "secret" not in shown
    assert platform.join_token not in shown
