"""End of a transaction in a test that is rolled back."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from muster.jobs.models import Attempt
from tests.db.stories import make_world, submit
from tests.factories import given

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]


def test_hooks_run_at_the_end_of_the_outermost_transaction_and_at_once_outside_of_one() -> None:
    ran: list[str] = []
    with transaction.atomic():
        with transaction.atomic():
            transaction.on_commit(lambda: ran.append("inside"))
        assert ran == []
    assert ran == ["inside"]
    transaction.on_commit(lambda: ran.append("outside"))
    assert ran == ["inside", "outside"]


def test_hooks_of_a_transaction_that_is_rolled_back_do_not_run() -> None:
    ran: list[str] = []
    with transaction.atomic():
        transaction.on_commit(lambda: ran.append("never"))
        transaction.set_rollback(True)
    with transaction.atomic():
        pass
    assert ran == []


def test_a_transaction_that_breaks_a_deferred_constraint_is_rolled_back() -> None:
    job = submit(make_world())
    with pytest.raises(IntegrityError, match="nodes and"), transaction.atomic():
        Attempt.objects.create(job=job, number=7, request=given(job), master_addr="somewhere", master_port=1)
    assert not Attempt.objects.exists()
