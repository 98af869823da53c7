"""The delays of a long history of a pool are those of its simulation."""

from __future__ import annotations

import pytest

from tests.db.lived import require_equal_delays

# It commits: in one transaction of thousands of cycles Postgres would walk over all versions of each row.
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("settled_at_once"),
    pytest.mark.timeout(1_200),
]


def test_each_sum_of_the_delays_of_two_thousand_jobs_is_that_of_their_simulation() -> None:
    require_equal_delays(2_000)
