"""GPUs of a container: by CDI name where there is one and the engine knows them, else by the NVIDIA hook.

The specs of the Container Device Interface lie in two folders, as JSON or YAML. Of YAML files only the kind and the
devices' names are read, since the agent has no parser for YAML.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from nodeagent.protocol.messages import EndReason, Message
from nodeagent.runtime.port import LaunchError

FOLDERS = ("/etc/cdi", "/var/run/cdi")
NVIDIA = "nvidia.com/gpu"

_KIND = re.compile(r"^kind:\s*[\"']?([^\"'\s]+)", re.MULTILINE)
_NAME = re.compile(r"^\s*(?:-\s*)?name:\s*[\"']?([^\"'\s]+)", re.MULTILINE)

_log = logging.getLogger("nodeagent.runtime")


@dataclass(frozen=True)
class Injection(Message):
    """The means that give a container its GPUs; each GPU is in one of the three."""

    cdi: Tuple[str, ...] = ()
    """Names of CDI devices, such as `nvidia.com/gpu=GPU-…`."""
    nvidia: Tuple[str, ...] = ()
    """GPUs by UUID, for the engine's NVIDIA hook (`--gpus device=UUID`)."""
    nodes: Tuple[str, ...] = ()
    """Device nodes."""


@dataclass(frozen=True)
class Device:
    """One GPU that a CDI spec names."""

    kind: str
    name: str
    nodes: Tuple[str, ...] = ()


def read_devices(folders: Sequence[str] = FOLDERS) -> Dict[str, Device]:
    """Every GPU of the specs in the folders, by name. A later folder overrides, as the standard says."""
    found: Dict[str, Device] = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith((".json", ".yaml", ".yml")):
                try:
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        found.update(_devices_in(file.read(), is_json=name.endswith(".json")))
                except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # whatever is no spec
                    _log.warning("%s: not read: %s", os.path.join(folder, name), error)
    return found


def injection(
    uuids: Sequence[str], devices: Mapping[str, Device], *, knows_cdi: bool, has_nvidia_hook: bool, emulated: bool
) -> Injection:
    """Choose the means that give a container these GPUs; `LaunchError` if one of them has none.

    Emulated GPUs have no device, unless a CDI spec names one.
    """
    cdi: List[str] = []
    nvidia: List[str] = []
    nodes: List[str] = []
    for uuid in uuids:
        device = devices.get(uuid)
        if device is not None and knows_cdi:
            cdi.append("{}={}".format(device.kind, device.name))
        elif device is not None and device.kind != NVIDIA:
            nodes += device.nodes
        elif emulated:
            continue
        elif has_nvidia_hook:
            nvidia.append(uuid)
        else:
            detail = "gpus: no CDI spec names {}: run `nvidia-ctk cdi generate --device-name-strategy=uuid`".format(
                uuid
            )
            raise LaunchError(EndReason.LAUNCH_FAILED, detail)
    return Injection(tuple(cdi), tuple(nvidia), tuple(nodes))


def _devices_in(text: str, is_json: bool) -> Dict[str, Device]:
    if is_json:
        return _devices_in_json(json.loads(text))
    match = _KIND.search(text)
    if match is None or not match[1].endswith("/gpu"):
        return {}
    return {name: Device(match[1], name) for name in _NAME.findall(text)}


def _devices_in_json(spec: Any) -> Dict[str, Device]:
    kind: Optional[Any] = spec.get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str) or not kind.endswith("/gpu"):
        return {}
    found = {}
    for device in spec.get("devices", ()):
        edits = device.get("containerEdits") or {}
        nodes = tuple(str(node["path"]) for node in edits.get("deviceNodes") or ())
        found[str(device["name"])] = Device(kind, str(device["name"]), nodes)
    return found
