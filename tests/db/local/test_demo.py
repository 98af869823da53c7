"""Objects of the demonstration, and a second run over them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from muster.accounts.models import User
from muster.accounts.services import revoke_token, user_of_token
from muster.fleet.models import Gpu, Node
from muster.local.demo.cluster import NODES, epochs, nodes_of, prepare_nodes, prepare_tenants, wait_for_nodes
from muster.local.demo.people import prepare_people, read_people, require_python
from muster.local.places import LocalError
from muster.screening.models import PoolScreening
from muster.tenants.models import Membership, Quota
from muster.tenants.selectors import default_virtual_cluster
from scheduler.model.lifecycle import NodeHealth

URL = "http://127.0.0.1:8000"

pytestmark = pytest.mark.django_db


def enrol(*names: str) -> None:
    """Register the agents of these nodes."""
    for node in Node.objects.filter(name__in=names):
        Node.objects.filter(pk=node.pk).update(health=NodeHealth.READY, credential_digest=f"digest of {node.name}")
        place = nodes_of(heterogeneous=True)[node.name]
        for index in range(place.gpus):
            Gpu.objects.create(node=node, index=index, uuid=f"{node.name}-{index}", type=place.gpu_type)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The nodes, enrolled; returns the folder of their agents."""
    prepare_nodes(tmp_path)
    for name in NODES:
        (tmp_path / name).mkdir()
    enrol(*NODES)
    return tmp_path


def test_new_nodes_come_with_join_tokens(tmp_path: Path) -> None:
    options = prepare_nodes(tmp_path)
    assert [one.name for one in options] == ["gpu01", "gpu02", "screen01"]
    assert all(one.join_token.startswith("mjoin") for one in options)
    assert {node.name: node.pool.name for node in Node.objects.all()} == {
        "gpu01": "main",
        "gpu02": "main",
        "screen01": "screening",
    }


def test_jobs_of_the_main_pool_are_screened_in_the_other_and_an_operator_may_end_that(cluster: Path) -> None:
    assert [str(one) for one in PoolScreening.objects.all()] == ["main in screening"]
    PoolScreening.objects.all().delete()
    prepare_nodes(cluster)
    assert not PoolScreening.objects.exists()


def test_an_enrolled_node_whose_agent_kept_its_state_gets_no_new_token(cluster: Path) -> None:
    assert [one.join_token for one in prepare_nodes(cluster)] == ["", "", ""]


def test_a_node_whose_agent_lost_its_state_can_join_again(cluster: Path) -> None:
    (cluster / "gpu02").rmdir()
    first, second, third = prepare_nodes(cluster)
    assert (first.join_token, third.join_token) == ("", "")
    assert second.join_token.startswith("mjoin")


def test_nodes_whose_agents_have_registered_are_ready(cluster: Path) -> None:
    before = dict.fromkeys(epochs(), -1)
    wait_for_nodes(registered_before=before, timeout_s=1)
    assert set(before) == {"gpu01", "gpu02", "screen01"}


def test_nodes_that_do_not_come_are_named(tmp_path: Path) -> None:
    prepare_nodes(tmp_path)
    enrol("gpu01")
    with pytest.raises(LocalError, match="gpu02, screen01"):
        wait_for_nodes(registered_before=dict.fromkeys(NODES, -1), timeout_s=0.3)


def test_a_node_that_was_ready_in_the_last_run_is_waited_for_until_its_agent_is_back(cluster: Path) -> None:
    with pytest.raises(LocalError, match="gpu01, gpu02, screen01"):
        wait_for_nodes(registered_before=epochs(), timeout_s=0.3)


def test_tenants_and_quotas_are_made_once(cluster: Path) -> None:
    assert prepare_tenants() == prepare_tenants()
    assert sorted(Quota.objects.values_list("vc__name", "gpu_type", "gpus")) == [
        ("nlp", "A100", 4),
        ("vision", "A100", 4),
    ]


def test_a_run_with_two_types_adds_a_pool_whose_gpus_have_a_speed(tmp_path: Path) -> None:
    nodes = nodes_of(heterogeneous=True)
    options = {one.name: one for one in prepare_nodes(tmp_path, nodes)}
    assert [options[name].gpus for name in ("fast01", "slow01")] == ["emulated:A100:2", "emulated:V100:2"]
    assert [name for name, one in options.items() if one.gpu_profiles] == ["fast01", "slow01"]
    enrol(*NODES)
    with pytest.raises(LocalError, match="fast01, slow01"):
        wait_for_nodes(nodes, registered_before=dict.fromkeys(nodes, -1), timeout_s=0.3)
    enrol("fast01", "slow01")
    wait_for_nodes(nodes, registered_before=dict.fromkeys(nodes, -1), timeout_s=1)
    prepare_tenants(heterogeneous=True)
    prepare_tenants(heterogeneous=True)
    assert sorted(Quota.objects.filter(vc__name="mixed").values_list("gpu_type", "gpus")) == [("A100", 2), ("V100", 2)]
    prepare_people(tmp_path / "demo.json", url=URL, tenants=prepare_tenants())
    vc = default_virtual_cluster(User.objects.get(username="ada"))
    assert vc is not None
    assert vc.name == "vision", "jobs that name no virtual cluster stay in the main pool"


def test_a_quota_that_an_operator_changed_is_left_alone(cluster: Path) -> None:
    prepare_tenants()
    Quota.objects.filter(vc__name="nlp").update(gpus=1)
    prepare_tenants()
    assert Quota.objects.get(vc__name="nlp").gpus == 1


def test_people_can_sign_in_as_the_file_says(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    people, renewed = prepare_people(path, url=URL, tenants=prepare_tenants())
    assert renewed == ["ada", "grace", "otto"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stored = json.loads(path.read_text())
    assert stored["url"] == URL
    for name, access in stored["users"].items():
        assert User.objects.get(username=name).check_password(access["password"])
        assert user_of_token(access["token"]) == User.objects.get(username=name)
        assert access["tenant"] == people[name].tenant


def test_roles_are_those_of_the_story(cluster: Path, tmp_path: Path) -> None:
    prepare_people(tmp_path / "demo.json", url=URL, tenants=prepare_tenants())
    members = sorted(Membership.objects.values_list("user__username", "tenant__name", "role"))
    assert members == [("ada", "vision", "member"), ("grace", "nlp", "manager")]
    assert User.objects.get(is_staff=True).username == "otto"


def test_a_second_run_changes_no_password_and_no_token(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    first, _ = prepare_people(path, url=URL, tenants=prepare_tenants())
    second, renewed = prepare_people(path, url=URL, tenants=prepare_tenants())
    assert (second, renewed) == (first, [])


@pytest.mark.parametrize("content", [None, "", "{}", '{"users": {"ada": {"password": "x"}}}', "[]"])
def test_a_file_that_is_lost_or_broken_is_made_anew(cluster: Path, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "demo.json"
    prepare_people(path, url=URL, tenants=prepare_tenants())
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    people, renewed = prepare_people(path, url=URL, tenants=prepare_tenants())
    assert renewed == ["ada", "grace", "otto"]
    assert read_people(path) == people
    assert user_of_token(people["ada"].token) == User.objects.get(username="ada")


def test_only_whose_token_was_revoked_gets_a_new_one(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    prepare_people(path, url=URL, tenants=prepare_tenants())
    grace = User.objects.get(username="grace")
    revoke_token(user=grace, token_id=grace.tokens.get().pk)
    _, renewed = prepare_people(path, url=URL, tenants=prepare_tenants())
    assert renewed == ["grace"]


def test_everyone_gets_a_uid_of_their_own(cluster: Path, tmp_path: Path) -> None:
    prepare_people(tmp_path / "demo.json", url=URL, tenants=prepare_tenants())
    assert len(set(User.objects.values_list("uid", flat=True))) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's agents change the user of a job")
def test_it_says_so_if_jobs_find_no_python_that_they_can_run(
    cluster: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (open_folder / "python3").write_text("#!/bin/sh\n")
    (open_folder / "python3").chmod(0o700)
    monkeypatch.setenv("PATH", str(open_folder))
    with pytest.raises(LocalError, match="python3"):
        require_python(70_000)
    (open_folder / "python3").chmod(0o755)
    require_python(70_000)
