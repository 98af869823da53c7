"""Rows of which only some columns were read."""

from __future__ import annotations

import pytest

from muster.common.rows import part_of
from muster.fleet.models import Pool


def test_a_part_of_a_row_has_what_was_read_and_knows_what_was_not() -> None:
    pool = part_of(Pool, log_max_bytes_per_job=5, id=7)
    assert (pool.pk, pool.log_max_bytes_per_job) == (7, 5)
    assert {"name", "policy"} <= pool.get_deferred_fields()
    assert not {"id", "log_max_bytes_per_job"} & pool.get_deferred_fields()
    assert not pool._state.adding


def test_a_part_of_a_row_has_only_columns_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"Pool has no column \['colour', 'size'\]"):
        part_of(Pool, id=7, size=1, colour="red")
