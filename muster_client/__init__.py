"""The Python SDK of Muster and its command line; needs neither Django nor the platform.

What a name needs is imported when it is first used: a training script that only reports pays for nothing else.
"""

import importlib
from typing import TYPE_CHECKING, Any

from muster_client.version import VERSION

if TYPE_CHECKING:
    from muster_client.calls.logs import LogEnd, LogEvent, LogState, LogText
    from muster_client.client import Client
    from muster_client.errors import ApiError, MusterError, NotLoggedInError, PackError, SpecError, UnreachableError
    from muster_client.local.pack import Archive, pack_folder
    from muster_client.local.spec import load_spec
    from muster_client.training import checkpoint, report


__all__ = [
    "VERSION",
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
    "checkpoint",
    "load_spec",
    "pack_folder",
    "report",
]

_HOMES = {
    "client": ("Client",),
    "errors": ("ApiError", "MusterError", "NotLoggedInError", "PackError", "SpecError", "UnreachableError"),
    "calls.logs": ("LogEnd", "LogEvent", "LogState", "LogText"),
    "local.pack": ("Archive", "pack_folder"),
    "local.spec": ("load_spec",),
    "training": ("checkpoint", "report"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The public name, from the module that has it."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
