"""The command on the authors' configuration and cases, and on steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.hived.__main__ import main
from bench.hived.cases import CasesError, run
from scheduler.admission.hived.config import CellConfigError
from tests.sim.data import data

CONFIG = """
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n0}
  - {cellType: NODE, cellAddress: n1}
virtualClusters:
  A: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
  B: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
"""


def _pod(group: str, **spec: object) -> dict[str, object]:
    return {
        "VirtualCluster": "A",
        "Priority": 0,
        "LeafCellType": "GPU",
        "LeafCellNumber": 2,
        "AffinityGroup": group,
    } | spec


def _steps(steps: list[dict[str, object]], **pods: dict[str, object]) -> list[dict[str, object]]:
    answers = run(CONFIG, json.dumps({"pods": pods, "steps": steps}))
    assert isinstance(answers, list)
    return answers


def test_the_authors_cases_have_their_bindings_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    folder = data("hivedscheduler")
    cases = json.loads((folder / "expected_test_cases.json").read_text())
    assert main([str(folder / "config_design.yaml"), str(folder / "expected_test_cases.json")]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert {pod: answer for pod, answer in answers.items() if "node" in answer} == cases["expectedBindInfos"]
    assert answers["pod7"].keys() == {"wait"}
    assert all(answers[pod].keys() == {"refused"} for pods in cases["casesThatShouldFail"] for pod in pods)


@pytest.mark.parametrize("name", ["config_basic.yaml", "config_design.yaml"])
def test_a_configuration_of_the_authors_fits(name: str) -> None:
    text = data("hivedscheduler", name).read_text()
    assert run(text, json.dumps({"pods": {}, "steps": []})) == []


def test_a_step_of_each_kind() -> None:
    answers = _steps(
        [
            {"create": "g1"},
            {"create": "g2"},
            {"create": "g3", "phase": "filtering"},
            {"delete": "g1"},
            {"node_bad": "n1"},
            {"create": "g2"},
            {"node_good": "n1"},
            {"create": "g3"},
        ],
        p1=_pod("g1"),
        p2=_pod("g2"),
        p3=_pod("g3", VirtualCluster="B"),
    )
    first = answers[0]["p1"]
    assert isinstance(first, dict)
    assert first["leafCellIsolation"] == [0, 1]
    assert answers[1]["p2"] == {"wait": "virtual cluster A has not enough free GPUs in its cells"}
    assert [answers[number] for number in (3, 4, 6)] == [{}, {}, {}]
    assert "node" in answers[5]["p2"]  # type: ignore[operator]
    assert len(answers) == 8


def test_only_the_preempting_phase_reserves() -> None:
    pods = {"low": _pod("low"), "high": _pod("high", Priority=5), "late": _pod("late", Priority=4)}
    filtering = _steps([{"create": "low"}, {"create": "high", "phase": "filtering"}, {"create": "late"}], **pods)
    assert filtering[1] == {"high": {"preempt": ["low"]}}
    assert filtering[2] == {"late": {"preempt": ["low"]}}
    preempting = _steps(
        [{"create": "low"}, {"create": "high"}, {"create": "late"}, {"delete": "low"}, {"create": "high"}], **pods
    )
    assert preempting[1] == {"high": {"preempt": ["low"]}}
    assert preempting[2].keys() == {"late"}
    assert "wait" in preempting[2]["late"]  # type: ignore[operator]
    assert "node" in preempting[4]["high"]  # type: ignore[operator]


def test_a_group_of_higher_priority_cancels_a_preemption_whose_cells_go_back_to_the_victim() -> None:
    pods = {"low": _pod("low"), "mid": _pod("mid", Priority=5), "high": _pod("high", Priority=6)}
    answers = _steps(
        [{"create": "low"}, {"create": "mid"}, {"create": "high"}, {"delete": "high"}, {"create": "mid"}], **pods
    )
    assert answers[2] == {"high": {"preempt": ["low"]}}
    assert answers[4] == {"mid": {"preempt": ["low"]}}


def test_a_lazy_victim_keeps_its_gpus_and_becomes_opportunistic() -> None:
    pods = {
        "low": _pod("low", LazyPreemptionEnable=True),
        "high": _pod("high", Priority=1),
        "b": _pod("b", VirtualCluster="B"),
    }
    answers = _steps([{"create": "low"}, {"create": "high"}, {"create": "b"}], **pods)
    assert "node" in answers[1]["high"]  # type: ignore[operator]
    assert answers[0]["low"] != answers[1]["high"]
    assert answers[2] == {"b": {"preempt": ["low"]}}


def test_groups_keep_their_gpus_when_their_cells_go() -> None:
    pods = {"a": _pod("a"), "b": _pod("b", VirtualCluster="B"), "b2": _pod("b2", VirtualCluster="B")}
    answers = _steps(
        [
            {"create": "a"},
            {"create": "b"},
            {
                "reconfigure": {
                    "virtualClusters": {"A": {}, "B": {"virtualCells": [{"cellType": "NODE", "cellNumber": 2}]}}
                }
            },
            {"create": "b2"},
            {"reconfigure": {"B": {"virtualCells": [{"cellType": "NODE", "cellNumber": 3}]}}},
        ],
        **pods,
    )
    assert answers[2] == {}
    assert answers[3] == {"b2": {"preempt": ["a"]}}
    assert "only 2 are left" in str(answers[4]["refused"])


def test_cases_that_cannot_be_read_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CasesError, match=r"steps\[0\] needs one of create"):
        _steps([{"move": "x"}])
    with pytest.raises(CasesError, match="no pod is of group 'x'"):
        _steps([{"create": "x"}])
    for cases_text, said in (("[", "Expecting"), ('{"steps": 3}', "steps must"), ('{"pods": {"a": 3}}', "pods.a must")):
        with pytest.raises(CasesError, match=said):
            run(CONFIG, cases_text)
    with pytest.raises(CellConfigError, match="cellTypes"):
        run("physicalCluster: {cellTypes: 3}", "{}")
    config, cases = tmp_path / "c.yaml", tmp_path / "c.json"
    config.write_text(CONFIG.replace("cellNumber: 1", "cellNumber: 9"))
    cases.write_text("{}")
    assert main([str(config), str(cases)]) == 1
    assert "the virtual clusters own 18 cells of type NODE, but only 2 are left" in capsys.readouterr().out
    assert main([str(config), "/nowhere"]) == 1
    assert main([]) == 2
