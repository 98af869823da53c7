"""Use an emulated GPU as a training does: each phase of a step takes the time of the node's profile.

    import muster_gpu

    model = muster_gpu.device().model("resnet50", batch_size=64)
    model.load()
    for step in range(steps):
        model.train()                # copies a batch to the GPU, forward, backward
        device.all_reduce(nbytes)    # with several GPUs

A node with emulated GPUs and profiles gives this module to its jobs, beside `muster_report`; docs/operator/emulated.md
has its models. It needs nothing but Python 3.7. `muster_gpu.json` beside it holds the job's GPUs and their profiles.

A GPU is a timeline in a file that all jobs on the GPU share: a phase begins when the phases that were booked before it
have ended. So jobs take turns, phase by phase.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import json
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Device", "Model", "OutOfMemoryError", "ProfileError", "device"]

MAX_AHEAD_S = 600.0
"""A timeline that is booked further ahead was written before the machine booted: it is begun anew."""
MAX_LATE_S = 0.25
"""Seconds of a late wake-up that the next phase makes good; a process that was stopped for longer has lost the time."""
_HERE = os.path.dirname(os.path.abspath(__file__))
_RECORD = struct.Struct("<dd")
_GIB = 1024.0
_mutex = threading.Lock()


class ProfileError(LookupError):
    """A key that the node's profile lacks; the message names it."""


class OutOfMemoryError(RuntimeError):
    """The model needs more memory than the GPU has; name and text are those of PyTorch."""


def device(*indexes: int) -> Device:
    """The GPUs of this rank with these indexes, or all of them, as one device that works data-parallel."""
    path = os.path.join(_HERE, "muster_gpu.json")
    try:
        with open(path, encoding="utf-8") as file:
            node = json.load(file)
    except FileNotFoundError as error:
        raise ProfileError("there is no emulated GPU with a profile: " + path + " is missing") from error
    gpus = node["gpus"]
    for index in indexes:
        if not 0 <= index < len(gpus):
            raise ProfileError(f"this job has no GPU {index}: it has {len(gpus)}")
    chosen = indexes or tuple(range(len(gpus)))
    if not chosen:
        raise ProfileError("this job has no GPU")
    return Device(node, chosen)


class Device:
    """One or several emulated GPUs; in a phase on several, each takes the time of the slowest."""

    def __init__(self, node: dict[str, Any], indexes: Sequence[int]) -> None:
        self._node = node
        self._indexes = tuple(indexes)
        self._gpus = [node["gpus"][index] for index in indexes]
        self._late = 0.0
        self._files: dict[str, int] = {}
        self._pid = os.getpid()
        self._samples_taken: dict[str, int] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """The type of each GPU."""
        return tuple(gpu["type"] for gpu in self._gpus)

    @property
    def memory_mib(self) -> int:
        """The memory of the smallest of the GPUs."""
        return min(int(gpu["memory_mib"]) for gpu in self._gpus)

    def model(self, name: str, batch_size: int, *, pinned: bool = True) -> Model:
        """The model with this batch size on each GPU; `pinned` says whether batches lie in pinned memory."""
        return Model(self, name, batch_size, pinned)

    def all_reduce(self, nbytes: float) -> float:
        """Wait as long as a ring all-reduce of this many bytes takes, and return the seconds."""
        seconds = self.all_reduce_s(nbytes)
        self.work(seconds)
        return seconds

    def all_reduce_s(self, nbytes: float) -> float:
        """The seconds of a ring all-reduce over the GPUs of all ranks: 2(n-1) latencies, 2(n-1)/n bytes per bandwidth.

        Latency and bandwidth are those of the slowest link between neighbours in the ring; the network between nodes.
        """
        if not 0 <= nbytes < float("inf"):
            raise ValueError(f"{nbytes} bytes cannot be reduced")
        ranks = int(os.environ.get("WORLD_SIZE") or 1)
        n = ranks * len(self._gpus)
        if n == 1:
            return 0.0
        words = ["network"] if ranks > 1 else []
        if len(self._indexes) > 1:
            following = self._indexes[1:] + self._indexes[:1]
            words += [self._node["topology"][one][following[at]] for at, one in enumerate(self._indexes)]
        links = [self._link(word) for word in words]
        bandwidth = min(gb_s for gb_s, _ in links) * 1e9
        latency = max(latency_us for _, latency_us in links) / 1e6
        return 2 * (n - 1) * latency + 2 * (n - 1) / n * nbytes / bandwidth

    def sample(self, name: str) -> float:
        """Wait as long as the next of the measured samples of this name, from the first again after the last one."""
        samples = self.samples(name)
        at = self._samples_taken.get(name, 0)
        self._samples_taken[name] = at + 1
        seconds = samples[at % len(samples)]
        self.work(seconds)
        return seconds

    def samples(self, name: str) -> list[float]:
        """The measured samples of this name."""
        samples: list[float] = self._node["samples"].get(name, [])
        if not samples:
            raise ProfileError(f"the profile has no samples of {name}")
        return samples

    def profile(self, name: str) -> list[dict[str, Any]]:
        """The profile's rows for a model on each type among the GPUs."""
        found = []
        for gpu_type in dict.fromkeys(self.types):
            models = self._node["profiles"].get(gpu_type, {})
            if name not in models:
                known = ", ".join(sorted(models)[:5]) or "no model"
                raise ProfileError(f"the profile has no {name} on {gpu_type}; it has {known}")
            found.append({"type": gpu_type, **models[name]})
        return found

    def work(self, seconds: float) -> None:
        """Keep the GPUs busy for so long after what was booked before, and return when they are done.

        A sleep ends late. The next phase begins where this one should have ended, so the errors do not add up.
        """
        end = self._book(time.monotonic() - self._late, seconds)
        while True:
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(left)
        self._late = min(MAX_LATE_S, -left)

    def _book(self, begin: float, seconds: float) -> float:
        with _mutex, self._locked() as files:
            records = [_read(file) for file in files]
            latest = time.monotonic() + MAX_AHEAD_S
            begin = max([begin, *(until for until, _ in records if until <= latest)])
            for at, file in enumerate(files):
                os.pwrite(file, _RECORD.pack(begin + seconds, records[at][1] + seconds), 0)
        return float(begin + seconds)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[int]]:
        if self._pid != os.getpid():  # a lock is shared with the process that this one was forked from
            self._files, self._pid = {}, os.getpid()
        files = []
        try:
            for name in sorted({gpu["timeline"] for gpu in self._gpus}):  # in one order, or two jobs could block
                if name not in self._files:
                    self._files[name] = os.open(os.path.join(_HERE, name), os.O_RDWR | os.O_CLOEXEC)
                fcntl.flock(self._files[name], fcntl.LOCK_EX)
                files.append(self._files[name])
            yield files
        finally:
            for file in files:
                fcntl.flock(file, fcntl.LOCK_UN)

    def _link(self, word: str) -> tuple[float, float]:
        links = self._node["links"]
        count = int(word[2:]) if word[:2] == "NV" and word[2:].isdigit() else 1
        gb_s, latency_us = links["NV" if word[:2] == "NV" else word]
        return gb_s * count, latency_us


class Model:
    """A model with its batch size on a device; each call waits for, and returns, the seconds of the profile."""

    def __init__(self, device: Device, name: str, batch_size: int, pinned: bool) -> None:
        self.name, self.batch_size, self.pinned = name, batch_size, pinned
        self._device = device
        self._profiles = device.profile(name)
        self._pageable_factor = 1.0
        if not pinned:
            pageable, kept = device.samples("epoch_pageable"), device.samples("epoch_pinned")
            self._pageable_factor = sum(pageable) / len(pageable) / (sum(kept) / len(kept))

    def load(self) -> float:
        """Copy the weights to the GPU."""
        self._allocate(self._at_batch("persistent_mib"), free_mib=self._device.memory_mib)
        seconds = max(float(self._value(profile, "load")) for profile in self._profiles)
        self._device.work(seconds)
        return seconds

    def copy(self) -> float:
        """Copy a batch to the GPU."""
        return self._phases("copy")

    def forward(self) -> float:
        """Compute a batch forward."""
        return self._phases("forward")

    def backward(self) -> float:
        """Compute a batch backward."""
        return self._phases("backward")

    def train(self) -> float:
        """One step: copy, forward and backward. Without pinned memory all takes longer, by the ratio of the samples."""
        return self._phases("copy", "forward", "backward", factor=self._pageable_factor)

    def _phases(self, *phases: str, factor: float = 1.0) -> float:
        persistent = self._at_batch("persistent_mib")
        self._allocate(self._at_batch("peak_mib") - persistent, free_mib=self._device.memory_mib - persistent)
        seconds = factor * sum(self._at_batch(phase) for phase in phases)
        self._device.work(seconds)
        return seconds

    def _allocate(self, mib: float, *, free_mib: float) -> None:
        if mib > free_mib:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {mib / _GIB:.2f} GiB. GPU 0 has a total capacity of "
                f"{self._device.memory_mib / _GIB:.2f} GiB of which {max(0.0, free_mib) / _GIB:.2f} GiB is free."
            )

    def _at_batch(self, what: str) -> float:
        return max(self._interpolated(profile, what) for profile in self._profiles)

    def _interpolated(self, profile: dict[str, Any], what: str) -> float:
        """The value at the batch size: on the line between the nearest two that the profile has, never outside."""
        points = self._value(profile, what)
        sizes = [size for size, _ in points]
        at = bisect.bisect_left(sizes, self.batch_size)
        if at < len(points) and sizes[at] == self.batch_size:
            return float(points[at][1])
        if not 0 < at < len(points):
            raise ProfileError(
                f"the profile has {what} of {self.name} on {profile['type']} for batch sizes from {sizes[0]} to "
                f"{sizes[-1]}, not for {self.batch_size}"
            )
        (below, low), (above, high) = points[at - 1], points[at]
        return float(low + (high - low) * (self.batch_size - below) / (above - below))

    def _value(self, profile: dict[str, Any], what: str) -> Any:
        if what not in profile:
            raise ProfileError(
                f"the profile has no {what} of {self.name} on {profile['type']} (batch size {self.batch_size})"
            )
        return profile[what]


def _read(file: int) -> tuple[float, float]:
    data = os.pread(file, _RECORD.size, 0)
    return _RECORD.unpack(data) if len(data) == _RECORD.size else (0.0, 0.0)
