"""From the words of `--gpus` to a driver."""

from __future__ import annotations

import importlib

from nodeagent.gpu.emulated import EmulatedGpus, parse_models
from nodeagent.gpu.layouts import DEFAULT_LAYOUT
from nodeagent.gpu.port import GpuDriver, GpuUnavailable, NoGpus


def open_gpus(spec: str, identity: str, fault_path: str) -> GpuDriver:
    """The driver for `nvml`, `none`, `auto` (NVML if there is one) or `emulated:A100:4,V100:2@nvswitch`."""
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
        return EmulatedGpus(parse_models(models), identity, fault_path, layout if at else DEFAULT_LAYOUT)
    raise GpuUnavailable("{!r} is not one of auto, nvml, none, emulated:MODEL:COUNT[,...][@LAYOUT]".format(spec))


def _nvml() -> GpuDriver:
    """NVML's module is large, so it is loaded only where it is wanted."""
    driver: GpuDriver = importlib.import_module("nodeagent.gpu.nvml").NvmlGpus()
    return driver
