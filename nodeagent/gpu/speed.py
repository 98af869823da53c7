"""Gives jobs on emulated GPUs a speed: the module `muster_gpu`, the profiles of their GPUs, and the timelines of these.

A timeline is one file for each GPU, linked into the folder of every job on it, so that jobs of several users and in
containers meet there. It holds until when the GPU is booked, and for how long it was busy in all.
"""

from __future__ import annotations

import json
import os
import struct
import time
from typing import Any, Dict, Optional, Sequence, Tuple

from nodeagent import jobside
from nodeagent.gpu.profiles import GpuProfiles
from nodeagent.protocol.messages import GpuInfo

_RECORD = struct.Struct("<dd")


class EmulatedSpeed:
    """The speed of jobs on this node's emulated GPUs, and the load that it makes on them."""

    def __init__(self, profiles: GpuProfiles, state: str) -> None:
        self._profiles = profiles
        self._folder = os.path.join(state, "emulated-gpus")
        self._seen: Dict[str, Tuple[float, float]] = {}
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def furnish(self, gpus: Sequence[GpuInfo], topology: Sequence[Sequence[str]], folder: str) -> None:
        """Write what a job on these GPUs needs into the folder of its modules."""
        data: Dict[str, Any] = {
            "gpus": [
                {"uuid": gpu.uuid, "type": gpu.model, "memory_mib": gpu.memory_mib, "timeline": _name(gpu.uuid)}
                for gpu in gpus
            ],
            "topology": [[topology[one.index][other.index] for other in gpus] for one in gpus],
            "links": self._profiles.links,
            "samples": self._profiles.samples,
            "profiles": {gpu.model: self._profiles.models.get(gpu.model, {}) for gpu in gpus},
        }
        with open(os.path.join(folder, "muster_gpu.py"), "wb") as module:
            module.write(jobside.source("muster_gpu.py"))
        with open(os.path.join(folder, "muster_gpu.json"), "w", encoding="utf-8") as file:
            json.dump(data, file, separators=(",", ":"))
        for gpu in gpus:
            os.link(self._timeline(gpu.uuid), os.path.join(folder, _name(gpu.uuid)))

    def busy_fraction(self, uuid: str) -> float:
        """The share of the time since the last call for which jobs kept the GPU busy."""
        busy_s, now = self._busy_s(uuid), time.monotonic()
        before_s, then = self._seen.get(uuid, (busy_s, now))
        self._seen[uuid] = (busy_s, now)
        return min(1.0, max(0.0, busy_s - before_s) / (now - then)) if now > then else 0.0

    def _busy_s(self, uuid: str) -> float:
        with open(self._timeline(uuid), "rb") as file:
            data = file.read(_RECORD.size)
        return float(_RECORD.unpack(data)[1]) if len(data) == _RECORD.size else 0.0

    def _timeline(self, uuid: str) -> str:
        """The path of a GPU's timeline, which every job on the GPU may write, whatever its user."""
        path = os.path.join(self._folder, _name(uuid))
        if not os.path.exists(path):
            with open(path, "xb"):
                os.chmod(path, 0o666)  # noqa: S103 - only jobs on this GPU have a link to it
        return path


def open_speed(folder: str, models: Sequence[str], state: str) -> Optional[EmulatedSpeed]:
    """The speeds of a folder of profiles, None without one."""
    return EmulatedSpeed(GpuProfiles(folder, frozenset(models)), state) if folder else None


def _name(uuid: str) -> str:
    return uuid + ".timeline"
