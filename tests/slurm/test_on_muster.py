"""Scripts of users on Muster, against the record of what a real Slurm did with them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.slurm.compared import Compare, by_script, comparisons, shared_folder
from tests.slurm.on_muster import running
from tests.slurm.scripts import scripts

# Where Muster does otherwise, by the reason, in the words of docs/user/sbatch.md.
DIFFERENCES: dict[str, list[str]] = {
    "Tasks are spread evenly over the nodes": ["n04-tasks-over-nodes", "n21-tasks-per-node-of-a-step"],
    "`scontrol` shows the exit code 0:15 of a job that was stopped while it ran": ["t04-term-at-the-limit"],
}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's agents run jobs as other users")


@pytest.fixture(scope="module")
def compare(request: pytest.FixtureRequest) -> Iterator[Compare]:
    """Runs of all scripts of this run of the tests, begun at once on a cluster."""
    own = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid)]
    names = [item.callspec.params["name"] for item in own if isinstance(item, pytest.Function)]
    if request.config.getoption("--draw") is not None:
        names = [name for name in names if not scripts()[name].slow]
    with shared_folder() as shared, running(shared) as muster, comparisons(muster, names, shared) as found:
        yield found


@pytest.mark.parametrize("name", scripts())
def test_a_script_does_what_it_does_on_slurm(name: str, compare: Compare, pytestconfig: pytest.Config) -> None:
    if scripts()[name].slow and pytestconfig.getoption("--draw") is not None:
        pytest.skip("takes minutes, which the check has not")
    found, reason = compare(name), by_script(DIFFERENCES).get(name)
    if reason is None:
        assert found == []
    else:
        assert found, f"no longer: {reason}"
