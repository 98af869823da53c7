"""Translation of a script beyond its size: its command, its report and its refusals."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.jobs.spec.spec import parse_spec
from muster.sbatch.command import command_of
from muster.sbatch.directives import Refused
from muster.sbatch.options import Fate
from muster.sbatch.translate import Submission, Translation, translate
from tests.unit.sbatch.cases import site

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def translated(*directives: str, options: tuple[str, ...] = ()) -> Translation:
    script = "\n".join(["#!/bin/bash", *(f"#SBATCH {one}" for one in directives), "true", ""])
    return translate(Submission(script, "train.sbatch", options), site(), NOW)


def test_each_option_is_in_the_report_once_with_its_line_and_what_it_became() -> None:
    found = translated("-J study -N 1", "--gres=gpu:a100:2", "--output=%x.out", options=("--time=90",))
    assert [(one.line, one.text, one.fate, one.says) for one in found.report] == [
        (2, "-J study", Fate.TRANSLATED, "name: study"),
        (2, "-N 1", Fate.TRANSLATED, "nodes: 1"),
        (3, "--gres=gpu:a100:2", Fate.TRANSLATED, "gpus: a100:2"),
        (4, "--output=%x.out", Fate.IGNORED, "the log is always kept: muster logs, or the job's page"),
        (None, "--time=90", Fate.TRANSLATED, "time: 90m"),
    ]


def test_an_option_that_is_overridden_says_by_what() -> None:
    found = translated("--time=10", options=("--time=20",))
    assert [one.says for one in found.report] == ["--time=20 (command line) beats it", "time: 20m"]


@pytest.mark.parametrize(
    ("directive", "line", "names"),
    [
        ("--gress=gpu:1", 2, "--gress"),
        ("--gres=gpu:1 more", 2, "more"),
        ("--array=1-9:0", 2, "step of 0"),
        ("--array=1-1000000", 2, "highest index"),
        ("--time=99-00", 2, "partition gpu allows 72h"),
        ("--licenses=matlab:1", 2, "no licenses"),
        ("-J 'open", 2, "quote"),
        ("hetjob", 2, "hetjob"),
        ("--gres=gpu:5", None, "5 GPUs"),
    ],
)
def test_a_refusal_names_the_line_and_the_matter(directive: str, line: int | None, names: str) -> None:
    with pytest.raises(Refused) as refused:
        translated(directive)
    assert refused.value.line == line
    assert names in refused.value.message


def test_a_signal_comes_before_the_limit_and_the_rest_of_the_time_is_the_grace() -> None:
    spec = translated("--time=10", "--signal=B:USR1@90").spec
    assert (spec["time"], spec["checkpoint"]) == ("510s", {"signal": "USR1", "grace": "90s"})


def test_variables_that_are_exported_with_a_value_reach_the_job_and_no_others() -> None:
    env = translated("--export=ALL,SEED=7,HOME").spec["env"]
    assert env["SEED"] == "7"
    assert "HOME" not in env


@pytest.mark.parametrize(
    ("dependency", "after"),
    [
        ("afterok:7:8,afterany:9", ["7:ok", "8:ok", "9:any"]),
        ("afternotok:7?after:8", ["7:failed?8:started"]),
        ("singleton,aftercorr:7", ["singleton", "7:corr"]),
        ("7", ["7:any"]),
    ],
)
def test_a_dependency_is_what_a_spec_has_after(dependency: str, after: list[str]) -> None:
    spec = translated(f"--dependency={dependency}").spec
    assert parse_spec({"command": "true", "after": spec["after"]}).after == after


def test_the_number_of_tasks_is_a_variable_where_slurm_sets_it() -> None:
    assert translated("--ntasks-per-node=2").spec["env"]["SLURM_NTASKS"] == "2"
    assert "SLURM_NTASKS" not in translated("--nodes=2").spec["env"]


@pytest.mark.parametrize("script", ['#!/bin/sh\nprintf \'%s|\' "$0" "$@"', '#!/bin/sh\nprintf \'%s|\' "$0" "$@"\n'])
def test_the_command_runs_the_script_with_its_arguments(tmp_path: Path, script: str) -> None:
    command = command_of(script, ["a b", "c'd"])
    told = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "./slurm_script|a b|c'd|"


def test_a_script_may_hold_the_word_that_ends_it(tmp_path: Path) -> None:
    script = "#!/bin/sh\ncat <<'END_OF_THE_SCRIPT'\nhello $HOME\nEND_OF_THE_SCRIPT\n"
    told = subprocess.run(
        ["/bin/sh", "-c", command_of(script, [])], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout == "hello $HOME\n"


def test_a_wrapped_command_is_a_script_of_the_shell() -> None:
    found = translate(Submission(options=("--wrap", "python train.py")), site(), NOW)
    assert found.spec["name"] == "wrap"
    assert "#!/bin/sh\npython train.py\n" in found.spec["command"]
