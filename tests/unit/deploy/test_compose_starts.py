"""docker-compose.yml on empty volumes, with the owner's role alone: its own words start all of the platform."""

from __future__ import annotations

import base64
from contextlib import closing
from pathlib import Path

import httpx
import psycopg2
import pytest

from muster.local.places import find_places
from tests.composed import Composition, composed, filled_in, read_compose

SECRETS = {
    "POSTGRES_PASSWORD": "of-the-processes",
    "POSTGRES_OWNER_PASSWORD": "of-the-owner",
    "REDIS_PASSWORD": "of-the-hints",
    "MUSTER_SECRET_KEY": "s" * 64,
    "MUSTER_ENCRYPTION_KEYS": base64.urlsafe_b64encode(b"k" * 32).decode(),
}


def rows(services: Composition, *, role: str, password: str, statement: str) -> list[tuple[object, ...]]:
    address = {"host": "127.0.0.1", "port": services.port_of("postgres"), "dbname": "muster"}
    with closing(psycopg2.connect(user=role, password=password, **address)) as link, link.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


@pytest.mark.timeout(240)
def test_all_services_get_healthy_in_the_order_of_the_file(open_folder: Path) -> None:
    places = find_places(open_folder / "home")
    with composed(filled_in(read_compose(), SECRETS)["services"], folder=open_folder, places=places) as services:
        services.up()
        web = f"http://127.0.0.1:{services.port_of('web')}"
        with httpx.Client(base_url=web, trust_env=False) as browser:
            assert browser.get("/admin/login/", follow_redirects=True).status_code == 200
        members = rows(
            services,
            role="muster",
            password=SECRETS["POSTGRES_PASSWORD"],
            statement="SELECT rolsuper FROM pg_roles WHERE rolname = current_user",
        )
        assert members == [(False,)]
