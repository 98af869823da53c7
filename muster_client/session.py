"""The settings, the server and the output that every command uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import httpx
import typer

from muster_client.calls.backoff import BackOff
from muster_client.client import Client
from muster_client.errors import NotLoggedInError
from muster_client.local.config import Config, Target, choose_target, config_path, load_config, readable_by_others
from muster_client.show.output import Output

# Shorter waits pass before anyone could read of them.
TOLD_WAIT_S = 1.5

T = TypeVar("T")


@dataclass(slots=True)
class Session:
    """One run of `muster`; tests put their own environment and transport in."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: httpx.BaseTransport | None = None
    backoff: BackOff = field(default_factory=BackOff)
    url: str | None = None
    output: Output = field(default_factory=Output)

    @property
    def config_path(self) -> Path:
        """Return where the configuration is kept."""
        return config_path(self.environ)

    def config(self) -> Config:
        """Return the stored configuration, and warn when others can read it."""
        path = self.config_path
        if readable_by_others(path):
            self.output.warn(f"{path} can be read by others; it holds your token. Run: chmod 600 {path}")
        return load_config(path)

    def target(self) -> Target:
        """Return the server and token of this run."""
        return choose_target(self.config(), self.environ, url=self.url)

    def client(self, *, quiet: bool = False) -> Client:
        """Return a client with a token; a `quiet` one does not tell when it has to wait."""
        target = self.target()
        if target.token is None:
            raise NotLoggedInError(f"You are not logged in at {target.url}. Run: muster login {target.url}")
        return self.client_for(target.url, target.token, quiet=quiet)

    def client_for(self, url: str, token: str | None, *, quiet: bool = False) -> Client:
        """Return a client of any server, with or without a token."""
        backoff = self.backoff if quiet else replace(self.backoff, told=self._tell_of_waiting)
        return Client(url, token, transport=self.transport, backoff=backoff)

    def ask(self, call: Callable[[Client], T]) -> T:
        """Return the answer to one call."""
        with self.client() as client:
            return call(client)

    def _tell_of_waiting(self, why: str, wait_s: float) -> None:
        if wait_s >= TOLD_WAIT_S:
            self.output.note(f"{why}; trying again in {wait_s:.0f} s.")


def begin(ctx: typer.Context, *, as_json: bool) -> Session:
    """Return the session of a command that begins, with its output in the form asked for."""
    session = ctx.find_object(Session)
    if session is None:
        raise RuntimeError("muster's main callback did not run")
    session.output = Output(as_json=as_json)
    return session
