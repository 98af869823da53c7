"""The tokens' file, and the server of each token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster_client.errors import ConfigError
from muster_client.local.config import (
    Config,
    Login,
    choose_target,
    config_path,
    load_config,
    normalise_url,
    readable_by_others,
    save_config,
    travels_unencrypted,
)

LOGIN = Login(token="mst_x", username="ada", token_id=3)


def test_only_the_user_can_read_the_file_and_its_folder(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        save_config(tmp_path / "muster" / "config.json", Config().with_login("https://a", LOGIN))
    finally:
        os.umask(old)
    assert (tmp_path / "muster" / "config.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "muster").stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_could_read_is_private_after_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    path.chmod(0o644)
    assert readable_by_others(path)
    save_config(path, Config())
    assert not readable_by_others(path)
    assert [item.name for item in tmp_path.iterdir()] == ["config.json"]


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    config = Config().with_login("https://a", LOGIN).with_login("https://b", Login(token="t", username="bob"))
    save_config(tmp_path / "c", config)
    assert load_config(tmp_path / "c") == config
    assert config.current == "https://b"


def test_without_a_file_there_is_an_empty_configuration(tmp_path: Path) -> None:
    assert load_config(tmp_path / "none") == Config()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"servers": {"a": 1}, "current": null}', '{"servers": [], "current": 1}']
)
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"broken\.json"):
        load_config(path)


def test_the_place_of_the_file_follows_the_environment(tmp_path: Path) -> None:
    assert config_path({"MUSTER_CONFIG": "/x/y.json", "XDG_CONFIG_HOME": "/z"}) == Path("/x/y.json")
    assert config_path({"XDG_CONFIG_HOME": "/z"}) == Path("/z/muster/config.json")
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == Path("~/.config/muster/config.json").expanduser()
    assert config_path({}) == Path("~/.config/muster/config.json").expanduser()


def test_a_stored_token_never_goes_to_another_server() -> None:
    config = Config().with_login("https://a", LOGIN)
    assert choose_target(config, {}).token == "mst_x"
    assert choose_target(config, {"MUSTER_URL": "https://A/"}).token == "mst_x"
    assert choose_target(config, {"MUSTER_URL": "https://b"}).token is None
    assert choose_target(config, {}, url="http://a").token is None


def test_the_option_goes_before_the_environment_and_that_before_the_file() -> None:
    config = Config().with_login("https://file", LOGIN)
    environ = {"MUSTER_URL": "https://environ", "MUSTER_TOKEN": "mst_env"}
    assert choose_target(config, environ, url="https://option").url == "https://option"
    assert choose_target(config, environ).url == "https://environ"
    assert choose_target(config, {}).url == "https://file"
    assert choose_target(config, environ).token == "mst_env"
    assert choose_target(Config(), {}).url == "http://127.0.0.1:8000"


@pytest.mark.parametrize("url", ["https://A.example/", "https://a.example/api/v1", " https://a.example/api/v1/ "])
def test_an_address_has_one_form(url: str) -> None:
    assert normalise_url(url) == "https://a.example"


@pytest.mark.parametrize("url", ["a.example", "ftp://a", "https://", "https://user:pw@a", "https://a?x=1"])
def test_it_refuses_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError):
        normalise_url(url)


def test_it_knows_when_a_password_would_travel_in_the_open() -> None:
    assert travels_unencrypted("http://gpu.example")
    assert not travels_unencrypted("http://127.0.0.1:8000")
    assert not travels_unencrypted("https://gpu.example")
