"""The table of Slurm's words: the editor of the admin, and the same edit by REST."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.events.models import AuditEntry
from muster.sbatch import edits
from muster.sbatch.models import SlurmTable
from muster.sbatch.selectors import table_in_force
from tests.api.asking import fields_of, require_described, send
from tests.factories import make_pool, make_tenant, make_token, make_user, make_vc

pytestmark = pytest.mark.django_db
EDIT, REST = "admin:sbatch_slurmtable_add", "/api/v1/slurm-table"
TEXT = "partitions:\n  gpu: {pool: main, default: true, max_time: 1-2}  # the large one\n"
TABLE = {"qos": {"z": {"priority": "high"}, "a": {}}, "accounts": {"lab": {"tenant": "1e3"}}}


@pytest.fixture
def operator() -> User:
    make_vc(make_tenant("1e3"), make_pool("main"), "large")
    return make_user("olga", operator=True)


@pytest.fixture
def olga(client: Client, operator: User) -> Client:
    client.force_login(operator)
    return client


@pytest.fixture
def rest(operator: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token(operator)}"})


def post(olga: Client, text: str, version: int = 0, **more: str) -> str:
    answer = olga.post(reverse(EDIT), {"text": text, "version": version, **more}, follow=True)
    return unescape(answer.content.decode())


def test_an_edit_is_previewed_and_then_stored_with_its_audit_row(olga: Client) -> None:
    assert "gpu: {pool: main" in olga.get(reverse(EDIT)).content.decode(), "an example is there to begin with"
    page = post(olga, TEXT, preview="")
    assert (
        "pool main with 0 nodes; virtual clusters large; without --time 1 d 2:00 h; at most 1 d 2:00 h; the def" in page
    )
    assert not SlurmTable.objects.exists()
    assert "Version 1 holds" in post(olga, TEXT)
    entry = AuditEntry.objects.get(object_type="slurm_table")
    assert (entry.actor, entry.before, entry.after) == ("olga", {"text": ""}, {"text": TEXT})
    assert "# the large one" in olga.get(reverse(EDIT)).content.decode()
    stored = olga.get(reverse("admin:sbatch_slurmtable_change", args=[1])).content.decode()
    assert "virtual clusters large" in stored


def test_an_edit_of_an_older_version_and_a_wrong_one_store_nothing(olga: Client) -> None:
    post(olga, TEXT)
    assert "olga stored version 1; this edit is of version 0" in post(olga, "")
    assert "partitions.gpu.pool: there is no pool 'x'" in post(olga, "partitions: {gpu: {pool: x}}", 1)
    assert list(table_in_force().partitions) == ["gpu"]
    assert AuditEntry.objects.filter(object_type="slurm_table").count() == 1


def test_rest_makes_the_same_edit(rest: Client) -> None:
    answer = send(rest, "PUT", REST, {"version": 0, "table": TABLE})
    require_described("PUT", REST, answer)
    assert answer.json() == send(rest, "GET", REST).json()
    assert (answer.json()["version"], answer.json()["changed_by"]) == (1, "olga")
    assert answer.json()["table"] == TABLE
    assert list(answer.json()["table"]["qos"]) == ["z", "a"], "in the operators' order"
    assert table_in_force().accounts["lab"].tenant == "1e3"
    assert send(rest, "PUT", REST, {"version": 0, "table": {}}).status_code == 409
    assert AuditEntry.objects.get(object_type="slurm_table").actor == "olga"


@pytest.mark.parametrize(
    ("table", "field"),
    [({"qos": {"a": {"priority": "top"}}}, "table.qos.a.priority"), ([], "table"), (None, "table")],
)
def test_rest_names_a_wrong_field(rest: Client, table: object, field: str) -> None:
    answer = send(rest, "PUT", REST, {"version": 0, "table": table})
    assert (answer.status_code, fields_of(answer)) == (422, [field])


def test_an_edit_that_was_slower_is_refused(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken() -> SlurmTable:
        monkeypatch.undo()
        SlurmTable.objects.create(version=1, text="", author="ada")
        return SlurmTable(version=0)

    monkeypatch.setattr(edits, "newest_table", overtaken)
    assert "ada stored version 1; this edit is of version 0" in post(olga, TEXT)
    assert not SlurmTable.objects.filter(author="olga").exists()
