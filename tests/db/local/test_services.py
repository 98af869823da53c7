"""The embedded servers that this very run uses."""

from __future__ import annotations

import os

import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_postgres_with_range_exclusion_at_hand() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
        cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('TimeZone')")
        version, zone = cursor.fetchone()
    assert version >= 150000
    assert zone == "UTC"


@pytest.mark.django_db
def test_the_role_is_no_superuser() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone() == (False,)


def test_redis_answers_at_the_address_of_the_settings() -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as server:
        server.set("greeting", "hello")
        assert server.getdel("greeting") == b"hello"


def test_each_worker_has_a_redis_database_of_its_own() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    number = int(worker.removeprefix("gw")) + 1 if worker else 0
    with redis.Redis.from_url(settings.REDIS_URL) as server:
        assert server.connection_pool.connection_kwargs.get("db", 0) == number


def test_the_state_folder_is_not_the_users() -> None:
    assert any(folder.name.startswith("muster-tests-") for folder in settings.STATE_FOLDER.parents)
