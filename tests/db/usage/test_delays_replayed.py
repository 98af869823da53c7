"""A history made by the real cycles of a pool has the delays that the simulator finds for the same submissions."""

from __future__ import annotations

import pytest

from tests.db.lived import require_equal_delays

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]


def test_each_sum_of_the_delays_of_a_pool_is_that_of_its_simulation() -> None:
    require_equal_delays(60)
