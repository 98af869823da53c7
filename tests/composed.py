"""docker-compose.yml as tests read it, and its services as processes of this machine.

Each service runs the words, the environment, the user and the health check that the file gives it, once what it
depends on is as the file says. Host names and ports become addresses of this machine; of the images, the programs of
the wheels and the environment of the Dockerfile are there.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.local.places import Account, Places
from muster.local.programs import find_programs, server_environment

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Z_]+)(?::(?P<kind>[?-])(?P<word>[^}]*))?\})")
_POLL_S = 1.0  # a health check starts a process
# Names and ports in the words and the environment of services, by service.
_PORTS = {"postgres": 5432, "valkey": 6379, "web": 8000}
# What stands for valkey's own client, which the wheel lacks: it sends its words and prints the answer.
_VALKEY_CLI = """#!{python}
import os, sys
from redis import Connection
link = Connection(port={port}, password=os.environ["REDISCLI_AUTH"])
link.send_command(*sys.argv[1:])
print(link.read_response().decode())
"""


class Missing(Exception):
    """A variable that has no default is not set."""


def filled_in(value: Any, environment: Mapping[str, str]) -> Any:
    """The value with its variables, as `docker compose config` fills them in."""
    if isinstance(value, dict):
        return {key: filled_in(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, environment) for item in value]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        given = environment.get(found["name"], "")
        if not given and found["kind"] == "?":
            raise Missing(found["name"])
        return given or (found["word"] if found["kind"] == "-" else "")

    text = VARIABLE.sub(replaced, value)
    assert "${" not in text, f"a way to name a variable that the tests do not know: {text}"
    return text


def read_compose() -> dict[str, Any]:
    """The file as it is, its anchors resolved and its variables not yet."""
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return read


def image_environment() -> dict[str, str]:
    """The `ENV` of the Dockerfile's last stage of the platform."""
    (stage,) = re.findall(r"^FROM \S+ AS platform$(.*?)^FROM ", DOCKERFILE.read_text(), re.MULTILINE | re.DOTALL)
    words = " ".join(re.findall(r"^ENV ((?:.*\\\n)*.*)$", stage, re.MULTILINE)).replace("\\\n", " ").split()
    return dict(word.split("=", 1) for word in words)


class Composition:
    """The services of the file on this machine, each with the folders that stand for its volumes."""

    def __init__(self, services: Mapping[str, dict[str, Any]], *, folder: Path, places: Places) -> None:
        self._services = services
        self._folder = folder
        self._places = places
        self._programs = find_programs(places)
        self._ports = {number: _free_port() for number in _PORTS.values()}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._bin = self._stand_ins()

    def up(self) -> None:
        """Start every service without a profile as `docker compose up --wait` does: a failure names the service."""
        waiting = {name: one for name, one in self._services.items() if "profiles" not in one}
        done: set[tuple[str, str]] = set()
        begun: dict[str, float] = {}
        while waiting or any(not self._reached(name, done) for name in begun):
            for name in [name for name, one in waiting.items() if _needs(one) <= done]:
                self._start(name, waiting.pop(name))
                begun[name] = time.monotonic()
                done.add((name, "service_started"))
            for name, since in begun.items():
                if not self._reached(name, done):
                    done |= self._look_at(name, waited_s=time.monotonic() - since)
            time.sleep(_POLL_S)

    def down(self) -> None:
        """End all services at once, each by the signal that the file gives it."""
        for name, process in self._running.items():
            process.send_signal(getattr(signal, self._services[name].get("stop_signal", "SIGTERM")))
        for process in self._running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_of(self, name: str) -> str:
        """The end of what a service wrote."""
        return (self._folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def port_of(self, name: str) -> int:
        """The port of a service on this machine."""
        return self._ports[_PORTS[name]]

    def _reached(self, name: str, done: set[tuple[str, str]]) -> bool:
        return bool({(name, "service_healthy"), (name, "service_completed_successfully")} & done)

    def _look_at(self, name: str, *, waited_s: float) -> set[tuple[str, str]]:
        """The state of a service by now: its end, or a health check that passes."""
        process, check = self._running[name], self._services[name]["healthcheck"]
        status = process.poll()
        if status is not None:
            assert status == 0, f"{name} ended with {status}:\n{self.log_of(name)}"
            assert check.get("disable"), f"{name} ended:\n{self.log_of(name)}"
            return {(name, "service_completed_successfully")}
        if check.get("disable"):
            return set()
        problem = self._ask(name, check)
        if not problem:
            return {(name, "service_healthy")}
        limit_s = _seconds(check["start_period"]) + check["retries"] * _seconds(check["interval"])
        assert waited_s < limit_s, f"{name} is not healthy: {problem}\n{self.log_of(name)}"
        return set()

    def _ask(self, name: str, check: Mapping[str, Any]) -> str:
        """A health check's complaint about a service; empty where it passes."""
        kind, *words = check["test"]
        try:
            asked = subprocess.run(
                self._words(name, ["sh", "-c", *words] if kind == "CMD-SHELL" else words),
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_seconds(check["timeout"]),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return str(error)
        return asked.stdout.decode(errors="replace") or "it failed" if asked.returncode else ""

    def _start(self, name: str, service: Mapping[str, Any]) -> None:
        words = [*service.get("entrypoint", []), *service.get("command", [])]
        if name == "postgres":
            words = self._new_database_server(service)
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                self._words(name, words),
                env=self._environment(name),
                cwd=ROOT if "build" in service else "/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _new_database_server(self, service: Mapping[str, Any]) -> list[str]:
        """Make what the image of Postgres makes on an empty volume; returns the words of the server.

        `initdb` runs under an account that this machine knows, and leaves its files to the user of the service.
        """
        data, asked, account = self._volume("postgres"), service["environment"], self._places.account
        password = self._places.root / "owner"
        password.write_text(asked["POSTGRES_PASSWORD"])
        initdb = [self._programs.initdb, f"--pgdata={data}", f"--username={asked['POSTGRES_USER']}", "--no-sync"]
        single = [self._programs.postgres, "--single", "-D", data, "postgres"]
        for path in (data, password):
            _give(path, account)
        for words, text in (
            ([*initdb, f"--pwfile={password}", *asked["POSTGRES_INITDB_ARGS"].split()], ""),
            (single, f"CREATE DATABASE {asked['POSTGRES_DB']}\n"),
        ):
            made = subprocess.run(
                words,
                user=account.uid if account else None,
                group=account.gid if account else None,
                env=server_environment(),
                cwd="/",
                input=text,
                capture_output=True,
                text=True,
                check=False,
            )
            assert made.returncode == 0, made.stderr
        with (data / "pg_hba.conf").open("a") as access:
            access.write("host all all all scram-sha-256\n")  # as the image's entrypoint does
        user = _user_of(service)
        for path in (data, *data.rglob("*")):
            _give(path, user)
        settings = ("listen_addresses=127.0.0.1", f"port={_PORTS['postgres']}", "unix_socket_directories=", "fsync=off")
        return [str(self._programs.postgres), "-D", str(data), *(word for one in settings for word in ("-c", one))]

    def _words(self, name: str, words: Sequence[str]) -> list[str]:
        return [*as_user(self._services[name]["user"]), *self._here(words)]

    def _environment(self, name: str) -> dict[str, str]:
        service = self._services[name]
        environment = {"PATH": f"{self._bin}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        if "build" in service:
            home = self._volume(service["volumes"][0].split(":")[0])
            for key, text in image_environment().items():
                found = text.replace("/app", str(ROOT)).replace("/var/lib/muster", str(home))
                environment[key] = found.replace("$PATH", environment["PATH"])
            environment["PYTHONPYCACHEPREFIX"] = str(home / "pycache")  # in place of the image's compiled modules
        return environment | {key: self._here([text])[0] for key, text in service.get("environment", {}).items()}

    def _volume(self, name: str) -> Path:
        """The folder that stands for a volume, empty at first and of the user of the first service that has it."""
        folder = self._folder / name
        if not folder.exists():
            folder.mkdir(mode=0o700)
            with_it = (one for one in self._services.values() if f"{name}:" in " ".join(one.get("volumes", [])))
            _give(folder, _user_of(next(with_it)))
        return folder

    def _here(self, words: Sequence[str]) -> list[str]:
        """Words with addresses of this machine in place of the file's."""
        names = "|".join(_PORTS)
        local = [re.sub(rf"(?<=[@/])({names})(?=:\d)", "127.0.0.1", str(word)) for word in words]
        ports = "|".join(map(str, self._ports))
        return [re.sub(rf"(?<=[:=])({ports})\b", lambda found: str(self._ports[int(found[1])]), word) for word in local]

    def _stand_ins(self) -> Path:
        """A folder with the programs of the images of Postgres and Valkey, for which the ports differ here."""
        folder = self._folder / "bin"
        folder.mkdir()
        postgres, valkey = self._ports[_PORTS["postgres"]], self._ports[_PORTS["valkey"]]
        ready = self._programs.postgres.with_name("pg_isready")
        texts = {
            "pg_isready": f'#!/bin/sh\nexec {ready} --port={postgres} "$@"\n',
            "valkey-server": f'#!/bin/sh\nexec {self._programs.valkey} "$@" --port {valkey}\n',
            "valkey-cli": _VALKEY_CLI.format(python=sys.executable, port=valkey),
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return folder


@contextmanager
def composed(services: Mapping[str, dict[str, Any]], *, folder: Path, places: Places) -> Iterator[Composition]:
    """The services, not started yet, with their volumes below `folder`; what was started is ended after the block."""
    made = Composition(services, folder=folder, places=places)
    try:
        yield made
    finally:
        made.down()


@cache
def as_user(user: str) -> tuple[str, ...]:
    """The words before a program's own with which root runs it as `uid:gid`; none for any other account.

    What the user may read in an image it may read here, in a checkout or an interpreter below a closed folder too.
    """
    if os.geteuid() != 0:
        return ()
    uid, gid = user.split(":")
    plain = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs")
    reading = (*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    for words in (reading, plain):
        if subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, check=False).returncode == 0:
            return words
    pytest.skip(f"user {user} cannot run {sys.executable}, and root lacks CAP_DAC_READ_SEARCH to let it")


def _user_of(service: Mapping[str, Any]) -> Account:
    uid, gid = map(int, service["user"].split(":"))
    return Account(service["user"], uid, gid)


def _give(path: Path, account: Account | None) -> None:
    """Give a file to an account where root may; any other user keeps it, and runs everything itself."""
    if os.geteuid() == 0 and account is not None:
        os.chown(path, account.uid, account.gid)


def _needs(service: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(name, asked["condition"]) for name, asked in service.get("depends_on", {}).items()}


def _seconds(text: str) -> int:
    assert re.fullmatch(r"\d+s", text), f"a duration that the tests do not know: {text}"
    return int(text[:-1])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])
