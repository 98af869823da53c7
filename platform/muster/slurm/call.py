"""A call of one of Slurm's commands, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from muster.accounts.models import User

VERSION = "slurm-wlm 22.05.8"
"""The version whose form the commands have, as `-V` prints it."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a command by a user, as it was typed."""

    user: User
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables by which Slurm's commands take defaults, TZ and COLUMNS."""
    input: str = ""
    """The text of standard input, where an argument asks for it."""
    folder: str = ""
    """The folder in which the command is called."""
    manages: bool = True
    """False: only the user's own jobs may be changed, whatever their roles allow."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of the caller: the variable TZ, by name or as +HHMM; UTC if it is neither."""
        name = self.environment.get("TZ", "").removeprefix(":")
        if len(name) == 5 and name[0] in "+-" and name[1:].isdecimal():
            offset = timedelta(hours=int(name[1:3]), minutes=int(name[3:]))
            return UTC if offset >= timedelta(days=1) else timezone(offset if name[0] == "+" else -offset)
        try:
            return ZoneInfo(name) if name else UTC
        except (KeyError, ValueError, OSError):  # it names no zone, or a file outside of their folder
            return UTC

    def moment(self, at: datetime | None, *, missing: str = "N/A") -> str:
        """A time as Slurm prints it, in the caller's zone."""
        if at is None:
            return missing
        form = self.environment.get("SLURM_TIME_FORMAT", "")
        local = at.astimezone(self.zone)
        return local.strftime(form[:100] if "%" in form else "%Y-%m-%dT%H:%M:%S")


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class Refused(Exception):
    """A command that ends with a message and without its output."""

    def __init__(self, stderr: str, *, exit_code: int = 1) -> None:
        super().__init__(stderr)
        self.answer = Answer(stderr=stderr if stderr.endswith("\n") else f"{stderr}\n", exit_code=exit_code)
