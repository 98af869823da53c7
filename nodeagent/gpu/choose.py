"""From the words of `--gpus` to a driver."""

from __future__ import annotations

import importlib
import os

from nodeagent.gpu.emulated import EmulatedGpus, parse_models
from nodeagent.gpu.layouts import DEFAULT_LAYOUT
from nodeagent.gpu.port import GpuDriver, GpuUnavailable, NoGpus
from nodeagent.gpu.speed import open_speed


def open_gpus(spec: str, identity: str, fault_path: str, profiles: str = "") -> GpuDriver:
    """The driver for `nvml`, `none`, `auto` (NVML if there is one) or `emulated:A100:4,V100:2@nvswitch`.

    Emulated GPUs have the speeds of the folder `profiles`, and keep their state beside the file of faults.
    """
    if profiles and not spec.startswith("emulated:"):
        raise GpuUnavailable("--gpu-profiles is for emulated GPUs, and --gpus is {!r}".format(spec))
    if spec == "none":
        return NoGpus()
    if spec == "nvml":
        return _nvml()
    if spec == "auto":
        try:
            return _nvml()
        except GpuUnavailable:
            return NoGpus()
    kind, _, declared = spec.partition(":")
    if kind == "emulated" and declared:
        models, at, layout = declared.partition("@")
        gpus = parse_models(models)
        speed = open_speed(profiles, gpus, os.path.dirname(fault_path))
        return EmulatedGpus(gpus, identity, fault_path, layout if at else DEFAULT_LAYOUT, speed)
    raise GpuUnavailable("{!r} is not one of auto, nvml, none, emulated:MODEL:COUNT[,...][@LAYOUT]".format(spec))


def _nvml() -> GpuDriver:
    """NVML's module is large, so it is loaded only where it is wanted."""
    driver: GpuDriver = importlib.import_module("nodeagent.gpu.nvml").NvmlGpus()
    return driver
