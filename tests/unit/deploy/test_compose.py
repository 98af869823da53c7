"""docker-compose.yml: what it promises about secrets, rights, images and order, and that it names only what exists."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from muster.local import children
from muster.local.children import Site
from muster.local.healthy import MAX_SILENCE_S
from tests.composed import COMPOSE, ROOT, VARIABLE, Missing, filled_in, read_compose
from tests.needed import needs

SECRETS = {
    "POSTGRES_PASSWORD": "x1",
    "POSTGRES_OWNER_PASSWORD": "x5",
    "REDIS_PASSWORD": "x2",
    "MUSTER_SECRET_KEY": "x3",
    "MUSTER_ENCRYPTION_KEYS": "x4",
}


RAW = read_compose()
CONFIG: dict[str, Any] = filled_in(RAW, SECRETS)
SERVICES: dict[str, dict[str, Any]] = CONFIG["services"]
LASTING = sorted(name for name, service in SERVICES.items() if service["restart"] != "no")
EVERY = pytest.mark.parametrize("name", sorted(SERVICES))


def words_of(service: dict[str, Any]) -> list[str]:
    return [*service.get("entrypoint", []), *service.get("command", [])]


def test_everything_that_the_platform_runs_locally_is_there() -> None:
    assert set(SERVICES) == {
        *("postgres", "valkey", "migrate", "web", "schedule", "default", "links", "agent"),
    }


@EVERY
def test_it_runs_without_rights(name: str) -> None:
    service = SERVICES[name]
    uid, _, gid = service["user"].partition(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert not {"privileged", "cap_add", "pid", "ipc", "network_mode", "devices"} & set(service)
    assert [volume for volume in service.get("volumes", []) if volume.split(":")[0] not in CONFIG["volumes"]] == []


def test_the_agent_has_an_account_of_its_own() -> None:
    agent = SERVICES["agent"]["user"]
    assert [name for name, service in SERVICES.items() if service["user"] == agent] == ["agent"]


@EVERY
def test_its_image_is_pinned_to_a_version(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")
    assert re.match(r"\d+\.\d+", tag)


def test_the_bases_of_our_images_are_pinned_too_and_to_one() -> None:
    default = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert default is not None
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-[a-z-]+", default[1])
    bases = {service["build"]["args"]["BASE"] for service in SERVICES.values() if "build" in service}
    assert bases == {default[1]}


@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_is_watched_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])


def test_the_database_is_migrated_once_before_anything_of_the_platform_starts() -> None:
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("web", "schedule", "default", "links"):
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def test_only_web_can_be_reached_and_only_from_this_machine_unless_somebody_says_so() -> None:
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "web": ["127.0.0.1:8000:8000"]
    }
    assert CONFIG["networks"]["data"] == {"internal": True}
    assert {name for name, service in SERVICES.items() if service["networks"] == ["data"]} == {
        *("postgres", "valkey", "migrate"),
    }
    assert SERVICES["agent"]["networks"] == ["front"]


@pytest.mark.parametrize("secret", sorted(SECRETS))
def test_a_secret_that_is_missing_stops_everything_and_is_named(secret: str) -> None:
    with pytest.raises(Missing, match=secret):
        filled_in(RAW, {name: value for name, value in SECRETS.items() if name != secret})


def test_no_secret_has_a_default() -> None:
    kinds = {(found["name"], found["kind"]) for found in VARIABLE.finditer(COMPOSE.read_text()) if found["name"]}
    named = {(name, kind) for name, kind in kinds if re.search("PASSWORD|SECRET|KEY", name)}
    assert named == {(name, "?") for name in SECRETS}


def test_every_variable_is_documented_and_in_the_example_and_the_example_has_no_value() -> None:
    used = {found["name"] for found in VARIABLE.finditer(COMPOSE.read_text()) if found["name"]}
    document = (ROOT / "docs" / "operator" / "configuration.md").read_text()
    assert {name for name in used if f"`{name}`" not in document} == set()
    example = dict(
        line.removeprefix("#").strip().split("=", 1)
        for line in (ROOT / ".env.example").read_text().splitlines()
        if "=" in line
    )
    assert set(example) == used
    assert {name for name, value in example.items() if value} == set()


def test_the_processes_get_settings_that_the_platform_knows() -> None:
    known = "".join((ROOT / "platform/muster/settings" / name).read_text() for name in ("__init__.py", "env.py"))
    for name in ("migrate", "web", "schedule", "default", "links"):
        assert {key for key in SERVICES[name]["environment"] if f'"{key}"' not in known} == set()
    # A container has its own port and home, and never shows a traceback.
    settable = set(re.findall(r'"(MUSTER_[A-Z_]+)"', known)) - {
        "MUSTER_HOME",
        "MUSTER_DEBUG",
        "MUSTER_MIGRATE_DATABASE_URL",
    }
    assert settable - set(SERVICES["web"]["environment"]) == set()
    assert SERVICES["web"]["environment"]["DATABASE_URL"] == "postgres://muster:x1@postgres:5432/muster"


def test_only_migrate_can_connect_as_the_owner_of_the_tables() -> None:
    owner = "postgres://muster_owner:x5@postgres:5432/muster"
    assert SERVICES["migrate"]["environment"]["MUSTER_MIGRATE_DATABASE_URL"] == owner
    assert [name for name, service in SERVICES.items() if "x5" in str(service)] == ["postgres", "migrate"]


def test_the_agent_gets_nothing_of_the_platforms_secrets() -> None:
    assert "environment" not in SERVICES["agent"]
    assert SERVICES["agent"]["secrets"] == ["join_token"]
    assert CONFIG["secrets"]["join_token"] == {"file": "/dev/null"}
    assert "--join-token-file=/run/secrets/join_token" in SERVICES["agent"]["command"]
    assert SERVICES["agent"]["volumes"] == ["agent:/var/lib/muster-agent"]
    assert SERVICES["agent"]["profiles"] == ["agent"]


def test_the_processes_are_those_of_the_local_stack(tmp_path: Path) -> None:
    site = Site(home=tmp_path, port=8000, services={})
    assert tuple(SERVICES["schedule"]["command"]) == children.schedule_worker(site).argv[2:]
    assert tuple(SERVICES["default"]["command"]) == children.default_worker(site).argv[2:]
    started, composed = list(children.web(site).argv[2:]), SERVICES["web"]["command"]
    assert composed[:2] == started[:2]
    assert "--no-proxy-headers" in started
    assert "--no-proxy-headers" in composed
    assert f"--timeout-keep-alive={started[started.index('--timeout-keep-alive') + 1]}" in composed


def test_every_command_exists() -> None:
    commands = [words for service in SERVICES.values() if "manage.py" in (words := words_of(service))]
    assert sorted(words[2] for words in commands) == ["links", "migrate"]
    assert {words[2] for words in commands} <= set(get_commands())
    checks = {name: service["healthcheck"].get("test", []) for name, service in SERVICES.items()}
    asked = {name: check[3:] for name, check in checks.items() if check[1:3] == ["python", "-m"]}
    parts = {"schedule": "schedule", "default": "default", "links": "links"}
    assert asked == {name: ["muster.local.healthy", part] for name, part in parts.items()}
    assert set(parts.values()) <= set(MAX_SILENCE_S)
    assert importlib.util.find_spec("muster.local.healthy") is not None


def test_everything_that_is_copied_into_the_images_is_there_and_not_ignored() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    lines = re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)
    copied = {word for line in lines for word in line.split()[:-1]}
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {name.split("/")[0] for name in copied} <= {line[1:] for line in ignored if line.startswith("!")}
    assert not {line for line in ignored if line.startswith("!") and not (ROOT / line[1:]).exists()}


def test_both_images_end_as_a_user_without_rights() -> None:
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    users = {stage.split()[2]: re.findall(r"^USER (\S+)$", stage, re.MULTILINE) for stage in stages if "USER" in stage}
    assert users == {"platform": [SERVICES["web"]["user"]], "agent": [SERVICES["agent"]["user"]]}


@needs("docker-compose", "docker-compose is not installed", found=shutil.which("docker-compose") is not None)
def test_docker_compose_reads_it_and_refuses_it_without_secrets(tmp_path: Path) -> None:
    def config(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        nothing = tmp_path / "empty"
        nothing.touch()
        words = ["docker-compose", "--project-directory", str(ROOT), "-f", str(COMPOSE), "--env-file", str(nothing)]
        return subprocess.run(
            [*words, "config"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    shown = config(SECRETS)
    assert shown.returncode == 0, shown.stderr
    read = yaml.safe_load(shown.stdout)["services"]
    assert set(read) == set(SERVICES)
    assert {name: service["user"] for name, service in read.items()} == {
        name: service["user"] for name, service in SERVICES.items()
    }
    refused = config({name: value for name, value in SECRETS.items() if name != "REDIS_PASSWORD"})
    assert refused.returncode != 0
    assert "REDIS_PASSWORD" in refused.stderr


def test_the_images_are_built_with_the_tools_of_the_makefile() -> None:
    version = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert version is not None
    assert f"uv=={version[1]}" in (ROOT / "Dockerfile").read_text()
