"""Reading job specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_client.errors import SpecError
from muster_client.local.spec import MAX_SPEC_BYTES, apply_sets, load_spec, read_spec


@pytest.mark.parametrize("text", ["- a\n", ""], ids=["a list", "nothing"])
def test_a_spec_has_to_be_a_mapping(text: str) -> None:
    with pytest.raises(SpecError, match="has to be a mapping"):
        load_spec(text)


def test_an_error_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("gpus: 1\ngpus: 2\n")
    with pytest.raises(SpecError, match=r"job\.yaml, line 2, column 1"):
        read_spec(path)


def test_it_refuses_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("a: " + "x" * MAX_SPEC_BYTES)
    with pytest.raises(SpecError, match="1 MiB"):
        read_spec(path)


def test_set_reaches_into_mappings_and_leaves_the_rest() -> None:
    spec = {"gpus": 1, "env": {"A": "1"}}
    assert apply_sets(spec, ["gpus=2", "env.B=x=y", "checkpoint.grace=120s"]) == {
        "gpus": 2,
        "env": {"A": "1", "B": "x=y"},
        "checkpoint": {"grace": "120s"},
    }
    assert spec == {"gpus": 1, "env": {"A": "1"}}


@pytest.mark.parametrize("item", ["gpus", "=1", "gpus.x=1"])
def test_set_refuses_what_makes_no_sense(item: str) -> None:
    with pytest.raises(SpecError):
        apply_sets({"gpus": 1}, [item])
