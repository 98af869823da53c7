"""GPUs and nodes that a job accepts, from the form of a job to the node that runs it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS, expect_state, job_named, submit
from tests.e2e.demo import ROOT, Demo, shell_of
from tests.faults.cluster import until

pytestmark = NEEDS

_ADD = """
from muster.fleet.models import Pool
from muster.fleet.services import create_node
pool = Pool.objects.get(name="main")
print(create_node(pool=pool, name="volta01", actor="test", single_user_shared=True)[1])
"""
_QUOTA = """
from muster.tenants.models import VirtualCluster
from muster.tenants.services import set_quota
set_quota(vc=VirtualCluster.objects.get(name="vision"), gpu_type="V100", gpus=GPUS, actor="test")
"""
# Other modules use the same demonstration.
_REMOVE = f"""
{_QUOTA.replace("GPUS", "0")}
from muster.fleet.models import Node
from muster.fleet.services import cordon_node, retire_node
node = Node.objects.get(name="volta01")
cordon_node(node=node, reason="the tests are over", actor="test")
retire_node(node=node, reason="the tests are over", actor="test")
"""


@pytest.fixture(scope="module")
def volta(demo: Demo) -> Iterator[Demo]:
    """The demonstration with a node of eight V100 beside those of A100, and quota for them."""
    with shell_of(demo) as shell:
        token = demo.home / "volta01.join-token"
        token.write_text(shell.run(_ADD).strip())
        words = {
            "--url": demo.url,
            "--state": str(demo.home / "agents/volta01"),
            "--gpus": "emulated:V100:8",
            "--cpus": "32",
            "--memory-mib": "262144",
            "--address": "127.0.0.1",
            "--join-token-file": str(token),
        }
        argv = [sys.executable, "-m", "nodeagent", "run", *(word for pair in words.items() for word in pair)]
        with subprocess.Popen(argv, cwd=ROOT, start_new_session=True) as agent:
            try:
                with demo.client("ada") as client:
                    until(lambda: _gpus(client.nodes(), "volta01") == 8, "the agent has told its GPUs")
                shell.run(_QUOTA.replace("GPUS", "8"))
                yield demo
                shell.run(_REMOVE)
            finally:
                agent.send_signal(signal.SIGTERM)


def _gpus(nodes: list[dict], name: str) -> int:  # type: ignore[type-arg]
    return sum(len(node["gpus"]) for node in nodes if node["name"] == name and node["health"] == "ready")


def choose(page: Page, label: str, option: str) -> None:
    """Choose one option of a list of the form, and close the list."""
    page.get_by_role("combobox", name=label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()
    page.keyboard.press("Escape")


def test_a_job_takes_the_second_gpu_type_on_a_node_that_it_names(ada: Page, volta: Demo) -> None:
    blocker = submit(volta, name="all-a100", gpus="A100:4", nodes_in=["gpu02"], screening="never", command="sleep 600")
    ada.goto(f"{volta.url}/submit")
    ada.get_by_label("Name", exact=True).fill("any-of")
    ada.get_by_label("GPUs", exact=True).fill("4")
    choose(ada, "GPU type", "A100")
    choose(ada, "Or GPU type", "V100")
    ada.get_by_label("Or GPUs", exact=True).fill("8")
    choose(ada, "Nodes to use", "gpu01")
    choose(ada, "Nodes to use", "volta01")
    choose(ada, "Nodes to avoid", "gpu02")
    editor = ada.get_by_role("textbox", name="Job spec in YAML")
    for line in ("any_of:", "- A100:4", "- V100:8", "nodes_in:", "- volta01", "exclude_nodes:", "- gpu02"):
        expect(editor).to_contain_text(line)
    expect(ada.get_by_role("region", name="Dry run").get_by_text("4–8 GPUs in total")).to_be_visible()
    ada.get_by_role("button", name="Submit job").click()

    expect(ada.get_by_role("heading", name="any-of", exact=True)).to_be_visible()
    expect(ada.get_by_text("4 A100 or 8 V100")).to_be_visible()
    expect(ada.get_by_text("gpu01, volta01")).to_be_visible()
    # The quota of A100 is used by the other job, so the second type is taken.
    expect_state(ada, "Succeeded")
    job = job_named(volta, "ada", "any-of")
    with volta.client("ada") as client:
        (attempt,) = client.attempts(job["id"])
        client.cancel(blocker["id"])
    (allocation,) = attempt["allocations"]
    assert (allocation["node"], len(allocation["gpus"])) == ("volta01", 8)

    ada.goto(f"{volta.url}/jobs")
    expect(ada.get_by_role("row").filter(has_text="any-of").get_by_text("4–8")).to_be_visible()


def test_a_job_that_waits_for_its_node_says_which(ada: Page, volta: Demo) -> None:
    spec = {"gpus": "A100:4", "nodes_in": ["gpu01"], "screening": "never"}
    with volta.client("grace") as client:
        blocker = client.submit({**spec, "name": "on-gpu01", "gpus": "A100:1", "command": "sleep 600"})
    until(lambda: job_named(volta, "grace", "on-gpu01")["state"] == "active", "the job holds a GPU of gpu01")
    waiting = submit(volta, name="wants-gpu01", command="true", **spec)
    ada.goto(f"{volta.url}/jobs/{waiting['id']}")
    expect(ada.get_by_text("gpu01 does not have 4 free A100")).to_be_visible()
    with volta.client("grace") as client:
        client.cancel(blocker["id"])
    expect_state(ada, "Succeeded")
