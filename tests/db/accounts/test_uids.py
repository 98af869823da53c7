"""Each user has a uid of their own, and none of a system account."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from pytest_django import Settings

from muster.accounts.checks import check_uid_range
from muster.accounts.models import User
from muster.accounts.services import create_user
from muster.accounts.uids import free_uid
from muster.common.errors import Invalid
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


def new_user(name: str, uid: int | None = None) -> User:
    return create_user(username=name, password=PASSWORD, uid=uid, actor="tests")


def test_users_get_uids_of_the_range_one_after_the_other(settings: Settings) -> None:
    settings.UID_RANGE = range(7000, 7100)
    assert [new_user(name).uid for name in ("ada", "bob")] == [7000, 7001]


def test_a_uid_that_became_free_comes_last(settings: Settings) -> None:
    settings.UID_RANGE = range(7000, 7003)
    ada, _ = new_user("ada"), new_user("bob")
    User.objects.filter(pk=ada.pk).update(uid=5000)
    assert [new_user(name).uid for name in ("eve", "fay")] == [7002, 7000]


def test_no_user_is_made_when_the_range_is_exhausted(settings: Settings) -> None:
    settings.UID_RANGE = range(7000, 7001)
    new_user("ada")
    with pytest.raises(Invalid, match="uid: MUSTER_UID_RANGE 7000-7000 is exhausted"):
        new_user("bob")
    assert not User.objects.filter(username="bob").exists()


@pytest.mark.parametrize(
    ("uid", "message"),
    [
        (0, "uid: uid 0: it is root's"),
        (33, "uid: uid 33: numbers below 1000 belong to system accounts"),
        (65_534, "uid: uid 65534: it is reserved"),
    ],
)
def test_uids_of_the_system_are_refused(uid: int, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        new_user("ada", uid)


def test_the_uid_of_the_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(Invalid, match="uid 4321: Muster itself runs as this user"):
        new_user("ada", 4321)


def test_the_uid_of_another_user_is_refused() -> None:
    new_user("ada", 4321)
    with pytest.raises(Invalid, match="uid: Another user has this uid"):
        new_user("bob", 4321)


def test_the_database_refuses_users_without_a_uid_and_with_anothers() -> None:
    with pytest.raises(IntegrityError, match="uid"), transaction.atomic():
        User.objects.create(username="ada")
    make_user(uid=4321)
    with pytest.raises(IntegrityError, match="uid"), transaction.atomic():
        make_user(uid=4321)


@pytest.mark.django_db(transaction=True)
def test_users_who_are_made_at_once_get_different_uids() -> None:
    def second() -> int:
        try:
            with transaction.atomic():
                return make_user("bob").uid
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = free_uid()
            other = pool.submit(second)
            with pytest.raises(TimeoutError):
                other.result(timeout=0.5)
            make_user("ada", uid=first)
        assert other.result(timeout=20) != first


def test_createsuperuser_gives_a_uid(settings: Settings) -> None:
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False)
    assert User.objects.get(username="root").uid in settings.UID_RANGE


@pytest.mark.parametrize(
    ("uids", "problem"),
    [
        (range(500, 70_000), "uids below 1000 belong to root"),
        (range(60_000, 70_000), "65534 and 65535 are reserved"),
        (range(70_000, 2**32), "uids end at 2147483647"),
    ],
)
def test_a_check_explains_a_range_that_cannot_be_used(uids: range, problem: str, settings: Settings) -> None:
    assert check_uid_range() == []
    settings.UID_RANGE = uids
    assert problem in "".join(error.msg for error in check_uid_range())
