"""`manage.py rotate_keys`: what it replaces, and what it leaves to the operator."""

from __future__ import annotations

import fcntl
import stat
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from muster.common.sealed import seal, unseal
from muster.common.secrets import digest
from muster.fleet.leases import Unauthorized, node_of_credential
from muster.fleet.models import Node
from muster.links.models import Server
from muster.settings.env import new_encryption_key
from tests.factories import make_node

pytestmark = pytest.mark.django_db

NAMES = ("secret_key", "encryption_key", "metrics_token")


@pytest.fixture
def home(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a stored secret of each kind."""
    for variable in ("MUSTER_SECRET_KEY", "MUSTER_ENCRYPTION_KEYS", "MUSTER_METRICS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    settings.STATE_FOLDER = tmp_path
    settings.ENCRYPTION_KEYS = [new_encryption_key()]
    for name in NAMES:
        (tmp_path / name).write_text(settings.ENCRYPTION_KEYS[0] if name == "encryption_key" else "old")
    return tmp_path


def rotated() -> str:
    output = StringIO()
    call_command("rotate_keys", stdout=output)
    return output.getvalue()


def test_stored_secrets_are_new_and_readable_by_their_owner_alone(home: Path) -> None:
    before = {name: (home / name).read_text() for name in NAMES}
    rotated()
    for name in NAMES:
        assert (home / name).read_text() not in ("", before[name])
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert {path.name for path in home.iterdir()} == {*NAMES, "supervisor.lock"}


def test_what_was_encrypted_by_the_old_key_is_encrypted_by_the_new_one_alone(home: Path, settings: Settings) -> None:
    node = make_node(name="gpu7")
    Server.objects.create(node=node, host="gpu7", user="root", sealed_key=seal("key"), sealed_credential=seal("old"))
    rotated()
    settings.ENCRYPTION_KEYS = [(home / "encryption_key").read_text()]
    server = Server.objects.get()
    assert unseal(server.sealed_key) == "key"
    credential = unseal(server.sealed_credential)
    assert credential != "old"
    assert node_of_credential(credential).name == "gpu7"


def test_a_key_that_is_still_needed_is_kept(home: Path, settings: Settings) -> None:
    known, settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS, [new_encryption_key()]
    unreadable = seal("key")
    settings.ENCRYPTION_KEYS = known
    Server.objects.create(node=make_node(), host="x", user="root", sealed_key=unreadable, sealed_credential=unreadable)
    old = (home / "encryption_key").read_text()
    with pytest.raises(CommandError, match="encrypted by a key that is not among"):
        rotated()
    assert (home / "encryption_key").read_text().split(",")[-1] == old


def test_agents_are_refused_until_they_join_with_their_new_token(home: Path) -> None:
    make_node(name="gpu1", credential="the credential of gpu1")
    (line,) = [line for line in rotated().splitlines() if "gpu1" in line]
    with pytest.raises(Unauthorized):
        node_of_credential("the credential of gpu1")
    token = next(word for word in line.split() if word.startswith("mjoin_"))
    assert Node.objects.get(name="gpu1").join_digest == digest(token)


def test_secrets_of_variables_are_left_to_the_operator(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MUSTER_SECRET_KEY", "MUSTER_ENCRYPTION_KEYS", "MUSTER_METRICS_TOKEN"):
        monkeypatch.setenv(variable, "x")
    before = {name: (home / name).read_text() for name in NAMES}
    lines = rotated().splitlines()
    assert {name: (home / name).read_text() for name in NAMES} == before
    for variable in ("MUSTER_SECRET_KEY", "MUSTER_ENCRYPTION_KEYS", "MUSTER_METRICS_TOKEN"):
        assert any(line.startswith(f"By hand: {variable}: ") for line in lines)


def test_it_refuses_while_the_platform_runs(home: Path) -> None:
    with (home / "supervisor.lock").open("w") as lock:
        lock.write("1 http://127.0.0.1:8000")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match=r"runs on .* already.*Stop it"):
            rotated()
    assert (home / "secret_key").read_text() == "old"
