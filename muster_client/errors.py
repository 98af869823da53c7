"""Errors, each with the exit status that `muster` ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster_client.answers.service import FieldError, Problem


EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_AUTH = 3
EXIT_NOT_FOUND = 4
EXIT_UNREACHABLE = 69
EXIT_INTERRUPTED = 130
EXIT_NO_SHELL = 255

_INVALID = frozenset({400, 413, 415, 422})
_AUTH = frozenset({401, 403})
_UNREACHABLE = frozenset({502, 503, 504})


class MusterError(Exception):
    """The base of every error that this package raises on purpose."""

    exit_status = EXIT_ERROR

    def problem(self) -> Problem:
        """Return the error in the form the server uses for its own."""
        return {"type": "about:blank", "title": str(self), "status": 0, "detail": "", "errors": []}


class SpecError(MusterError):
    """A job spec that cannot be read."""

    exit_status = EXIT_USAGE


class PackError(MusterError):
    """A code folder that cannot be packed."""

    exit_status = EXIT_USAGE


class ConfigError(MusterError):
    """A setting or a stored configuration that makes no sense."""

    exit_status = EXIT_USAGE


class UsageError(MusterError):
    """Options that make no sense, or for which something is not installed."""

    exit_status = EXIT_USAGE


class SimulationError(MusterError):
    """A simulation that failed, through no fault of who asked for it."""


class NotLoggedInError(MusterError):
    """A command that needs a token, and there is none."""

    exit_status = EXIT_AUTH


class NotThereError(MusterError):
    """Something that was named and is in no list of the server's."""

    exit_status = EXIT_NOT_FOUND


class UnreachableError(MusterError):
    """A server that did not answer, after every retry."""

    exit_status = EXIT_UNREACHABLE


def _exit_status_of(http_status: int) -> int:
    if http_status in _INVALID:
        return EXIT_USAGE
    if http_status in _AUTH:
        return EXIT_AUTH
    if http_status == 404:
        return EXIT_NOT_FOUND
    return EXIT_UNREACHABLE if http_status in _UNREACHABLE else EXIT_ERROR


class ApiError(MusterError):
    """An answer of the server that says no."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem["detail"] or problem["title"])
        self._problem = problem
        self.exit_status = _exit_status_of(problem["status"])

    @property
    def status(self) -> int:
        """Return the HTTP status of the answer."""
        return self._problem["status"]

    @property
    def errors(self) -> list[FieldError]:
        """Return the fields that the server refuses."""
        return self._problem["errors"]

    def problem(self) -> Problem:
        """Return the problem document as the server sent it."""
        return self._problem
