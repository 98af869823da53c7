"""Folders of the embedded servers, and folders that are refused."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from muster.local.places import (
    SOCKET_PATH_LIMIT_BYTES,
    LocalError,
    agents_folder,
    find_places,
    make_folder,
    service_account,
    state_folders,
)
from muster.local.services import default_home


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_same_home_gives_the_same_places(open_folder: Path) -> None:
    assert find_places(open_folder / "home") == find_places(open_folder / "home")


def test_every_folder_of_the_servers_is_private_to_their_account(open_folder: Path) -> None:
    places = find_places(open_folder / "home")
    owner = places.account.uid if places.account else os.geteuid()
    for folder in (places.root, places.sockets, places.valkey_data, places.log, places.programs):
        assert (mode_of(folder), folder.stat().st_uid) == (0o700, owner)


def test_a_long_path_gets_a_short_folder_for_its_sockets(open_folder: Path) -> None:
    home = open_folder / "a-rather-long-name" / ("x" * 80)
    make_folder(home.parent, mode=0o711)
    places = find_places(home, short=open_folder)
    assert places.sockets.parent == open_folder
    assert len(os.fsencode(places.sockets / ".s.PGSQL.5432.lock")) <= SOCKET_PATH_LIMIT_BYTES


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account run the servers")
def test_a_home_that_the_account_cannot_enter_puts_the_servers_elsewhere(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    places = find_places(closed / "home", state=open_folder / "state")
    assert places.root.parent == open_folder / "state"
    assert mode_of(closed) == 0o700


def test_a_secret_that_is_made_first_leaves_the_home_open_to_the_account(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_SECRET_KEY", raising=False)
    sys.modules["muster.settings.env"].secret("MUSTER_SECRET_KEY", open_folder / "home" / "secret_key", size=48)
    places = find_places(open_folder / "home", state=open_folder / "state")
    assert places.root.parent == open_folder / "home"


def test_the_state_of_a_home_is_all_that_was_made_for_it(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    home, elsewhere, short = closed / ("x" * 80), open_folder / "state", open_folder / "short"
    short.mkdir()
    find_places(home, state=elsewhere, short=short)
    agents_folder(home, state=elsewhere)
    made = state_folders(home, state=elsewhere, short=short)
    left = [path for folder in (closed, elsewhere, short) for path in folder.iterdir() if path not in made]
    assert left == []


def test_an_ordinary_user_runs_the_servers_as_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert service_account() is None


def test_a_link_is_refused_where_everybody_may_write(open_folder: Path) -> None:
    (open_folder / "mine").mkdir()
    (open_folder / "trap").symlink_to(open_folder / "mine")
    with pytest.raises(LocalError, match="must be a folder"):
        make_folder(open_folder / "trap")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(open_folder: Path) -> None:
    (open_folder / "theirs").mkdir()
    os.chown(open_folder / "theirs", 54321, 54321)
    with pytest.raises(LocalError, match="uid 54321"):
        make_folder(open_folder / "theirs")


def test_an_existing_home_keeps_its_mode(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir()
    home.chmod(0o755)
    find_places(home)
    assert mode_of(home) == 0o755


@pytest.mark.parametrize("value", ["", "/srv/muster", "~/muster", "relative"])
def test_the_commands_and_the_settings_agree_on_the_state_folder(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", value)
    assert default_home() == sys.modules["muster.settings.env"].home_folder()


def test_commands_know_the_address_of_the_platform_that_runs_beside_them(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MUSTER_URL", "PORT"):
        monkeypatch.delenv(name, raising=False)
    public_url = sys.modules["muster.settings.env"].public_url
    for written, url in (
        ("", "http://127.0.0.1:8000"),
        (f"{os.getpid()} http://127.0.0.1:8005", "http://127.0.0.1:8005"),
        ("4194305 http://127.0.0.1:8005", "http://127.0.0.1:8000"),  # a process that was killed
    ):
        (open_folder / "supervisor.lock").write_text(written)
        assert public_url(open_folder) == url
