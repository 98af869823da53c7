"""Classes of failures and reasons of ends, in words."""

from __future__ import annotations

import pytest

from scheduler.diagnosis.failures import builtin, title_of


@pytest.mark.parametrize(
    ("failure", "line", "exit_code", "title"),
    [
        ("gpu_out_of_memory", "torch.cuda.OutOfMemoryError: CUDA out of memory", 1, "GPU out of memory"),
        ("semantic_error", "IndexError: list index out of range", 1, "Python exception: IndexError"),
        ("semantic_error", "numpy.linalg.LinAlgError: Singular matrix", 1, "Python exception: LinAlgError"),
        ("semantic_error", "panicked at src/main.rs", 101, "Exception in the program"),
        ("exit_nonzero", "", 3, "Exit code 3"),
        ("node_lost", "", None, "Node lost"),
    ],
)
def test_a_failure_has_a_title(failure: str, line: str, exit_code: int | None, title: str) -> None:
    assert title_of(failure, line=line, exit_code=exit_code) == title


def test_no_class_shows_its_identifier() -> None:
    assert [name for name in builtin().classes if "_" in title_of(name)] == []
