"""Clusters from a line of text and from YAML, and the quotas that they give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.cluster import (
    ClusterError,
    ClusterSpec,
    NodeGroup,
    load_cluster,
    parse_cluster,
    quotas_by_share,
    read_cluster,
    spelled_as_in,
)
from scheduler.sim.trace import Trace
from scheduler.sim.world import world_of
from tests.sim.stories import ends, job, play

YAML = """
groups:
  - {type: V100, nodes: 2, gpus: 4, cpus: 32, memory: 256GiB, gpu_memory: 32GiB, per_rack: 2}
  - {type: K80, nodes: 1, gpus: 8, memory: 1000}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def test_it_reads_a_line_of_groups() -> None:
    assert parse_cluster("V100:2x4, P100:4x8").groups == (NodeGroup("V100", 2, 4), NodeGroup("P100", 4, 8))
    assert parse_cluster("V100:2x4,V100:1x2").gpus == {"V100": 10}


@pytest.mark.parametrize(
    "text", ["", "V100", "V100:2", "V100:0x4", "V100:2x", ":2x4", "V100:-1x4", "V100:2x4,", "V:²x4"]
)
def test_it_refuses_a_line_that_it_does_not_understand(text: str) -> None:
    with pytest.raises(ClusterError, match="is not TYPE:NODESxGPUS"):
        parse_cluster(text)


def test_types_are_those_of_the_trace_in_whatever_capitals() -> None:
    cluster = parse_cluster("V100:2x4,p100:1x4,T4:1x1")
    quotas = {"a": {"p100": 2}}
    trace = Trace("t", (replace(job(1), gpu_type="v100"), replace(job(2), gpu_types=("T4", "P100"))))
    spelled = spelled_as_in(trace, replace(cluster, quotas=quotas))
    assert spelled.gpus == {"v100": 8, "P100": 4, "T4": 1}
    assert spelled.quotas == {"a": {"P100": 2}}


def test_two_spellings_of_a_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="'V100' and 'v100' are one type"):
        parse_cluster("V100:2x4,T4:1x1,v100:1x4")
    text = "groups: [{type: A100, nodes: 1, gpus: 1}, {type: a100, nodes: 1, gpus: 1}]"
    with pytest.raises(ClusterError, match="'A100' and 'a100' are one type"):
        read_cluster(written(tmp_path, text))


def test_it_reads_groups_of_yaml(tmp_path: Path) -> None:
    spec = load_cluster(str(written(tmp_path, YAML)))
    assert spec.groups == (NodeGroup("V100", 2, 4, 32, 262_144, 32_768, 2), NodeGroup("K80", 1, 8, 0, 1000))
    assert spec.quotas_for(Trace("t", (job(1),), quotas={"default": {"V100": 1}})) == {"default": {"V100": 1}}
    assert load_cluster("T4:1x1") == parse_cluster("T4:1x1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("groups: [", "not YAML"),
        ("- 1", "the file must be a mapping"),
        ("groups: []", "groups must be a list of at least one"),
        ("nodes: 3", "unknown key 'nodes'; known: groups, vcs"),
        ("groups: [3]", r"groups\[0\] must be a mapping"),
        ("groups: [{type: V100, nodes: 0, gpus: 4}]", r"groups\[0\].nodes must be a whole number of at least 1, not 0"),
        ("groups: [{type: V100, nodes: 1}]", r"groups\[0\].gpus must be a whole number of at least 1, not None"),
        ("groups: [{nodes: 1, gpus: 4}]", r"groups\[0\].type must be the name of a GPU type"),
        ("groups: [{type: V100, nodes: true, gpus: 4}]", r"groups\[0\].nodes must be a whole number"),
        ("groups: [{type: V100, nodes: 1, gpus: 4, memory: 3 pigs}]", r"groups\[0\].memory must be a size"),
        ("groups: [{type: V100, nodes: 1, gpus: 4, rack: 3}]", r"groups\[0\]: unknown key 'rack'"),
        (YAML + "vcs: all", "vcs must be 'by-gpu-time', or"),
        (YAML + "vcs: {a: {T4: 1}}", "vcs.a: the cluster has no 'T4'; it has V100, K80"),
        (YAML + "vcs: {a: {V100: -1}}", "vcs.a.V100 must be a whole number"),
        (YAML + "vcs: {a: {V100: 5}, b: {V100: 4}}", "vcs: the quotas add up to 9 V100, but the cluster has 8"),
        (YAML + "vcs: {a: {V100: 5}, b: 1}", "vcs.a must be a share above 0, or GPUs by type"),
        (YAML + "vcs: {a: .nan}", "vcs.a must be a share above 0"),
        (YAML + "vcs: {a: 0}", "vcs.a must be a share above 0"),
    ],
)
def test_it_quotes_what_is_wrong_in_yaml(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ClusterError, match=f"cluster.yaml: .*{reason}"):
        read_cluster(written(tmp_path, text))


def test_it_says_which_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"none.yaml: No such file"):
        load_cluster(str(tmp_path / "none.yaml"))


def test_quotas_are_as_written_or_by_share_or_by_gpu_time(tmp_path: Path) -> None:
    trace = Trace("t", (job(1, gpus=3, runs=100, vc="a"), job(2, gpus=1, runs=100, vc="b")))
    exact = read_cluster(written(tmp_path, YAML + "vcs: {a: {V100: 5}, b: {K80: 8}}"))
    assert exact.quotas_for(trace) == {"a": {"V100": 5}, "b": {"K80": 8}}
    shared = read_cluster(written(tmp_path, YAML + "vcs: {a: 1, b: 1}"))
    assert shared.quotas_for(trace) == {"a": {"V100": 4, "K80": 4}, "b": {"V100": 4, "K80": 4}}
    used = read_cluster(written(tmp_path, YAML + "vcs: by-gpu-time"))
    assert used.quotas_for(trace) == {"a": {"V100": 6, "K80": 6}, "b": {"V100": 2, "K80": 2}}


def test_a_virtual_cluster_without_a_quota_is_an_error(tmp_path: Path) -> None:
    spec = read_cluster(written(tmp_path, YAML + "vcs: {a: {V100: 5}}"))
    with pytest.raises(ClusterError, match="no quota for virtual cluster 'b' of trace t"):
        spec.quotas_for(Trace("t", (job(1, vc="a"), job(2, vc="b"))))


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 100), min_size=1),
    st.integers(1, 500),
    st.integers(1, 8),
)
def test_shares_deal_out_every_gpu_and_miss_none_by_more_than_one(
    shares: dict[str, float], nodes: int, gpus: int
) -> None:
    spec = ClusterSpec((NodeGroup("V100", nodes, gpus),))
    quotas = quotas_by_share(spec, shares)
    assert sum(types["V100"] for types in quotas.values()) == nodes * gpus
    for name, share in shares.items():
        assert abs(quotas[name]["V100"] - nodes * gpus * share / sum(shares.values())) < 1 + 1e-9


def test_a_quota_is_cut_into_whole_nodes_and_single_gpus_for_the_rest() -> None:
    world = world_of(parse_cluster("V100:3x4"), {"a": {"V100": 6}, "b": {"V100": 4}}, seed=0, by_cells=True)
    node, gpu = "3-V100x4-NODE.V100x4-NODE", "3-V100x4-NODE.V100x4-NODE.V100"
    assert {vc.name: dict(vc.cells) for vc in world.vcs} == {"a": {node: 1, gpu: 2}, "b": {node: 1}}
    with pytest.raises(ClusterError, match="no cells for 1 V100 of b"):
        world_of(parse_cluster("V100:3x4"), {"a": {"V100": 8}, "b": {"V100": 5}}, seed=0, by_cells=True)


def test_nothing_runs_on_a_bad_node() -> None:
    cluster = ClusterSpec((NodeGroup("V100", nodes=2, gpus=4, bad=1),))
    assert [node.schedulable for node in world_of(cluster, {}, seed=0, by_cells=False).nodes] == [False, True]
    assert ends(play([job(1, gpus=3), job(2, gpus=3)], cluster)) == {1: 100, 2: 200}
