"""The Python SDK of Muster and its command line; needs neither Django nor the platform."""

from muster_client.client import Client
from muster_client.errors import (
    ApiError,
    MusterError,
    NotLoggedInError,
    PackError,
    SpecError,
    UnreachableError,
)
from muster_client.logs import LogEnd, LogEvent, LogState, LogText
from muster_client.pack import Archive, pack_folder
from muster_client.spec import load_spec

__all__ = [
    "ApiError",
    "Archive",
    "Client",
    "LogEnd",
    "LogEvent",
    "LogState",
    "LogText",
    "MusterError",
    "NotLoggedInError",
    "PackError",
    "SpecError",
    "UnreachableError",
    "load_spec",
    "pack_folder",
]
