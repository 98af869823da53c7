"""From the words of `--gpus` to a driver."""

from __future__ import annotations

import importlib

from nodeagent.gpu.emulated import EmulatedGpus, parse_models
from nodeagent.gpu.port import GpuDriver, GpuUnavailable, NoGpus


def open_gpus(spec: str, identity: str, fault_path: str) -> GpuDriver:
    """The driver for `nvml`, `none`, `auto` (NVML if there is one) or `emulated:A100:4,V100:2`."""
    if spec == "none":
        return NoGpus()
    if spec == "nvml":
        return _nvml()
    if spec == "auto":
        try:
            return _nvml()
        except GpuUnavailable:
            return NoGpus()
    kind, _, models = spec.partition(":")
    if kind == "emulated" and models:
        return EmulatedGpus(parse_models(models), identity, fault_path)
    raise GpuUnavailable("{!r} is not one of auto, nvml, none, emulated:MODEL:COUNT,...".format(spec))


def _nvml() -> GpuDriver:
    """NVML's module is large, so it is loaded only where it is wanted."""
    driver: GpuDriver = importlib.import_module("nodeagent.gpu.nvml").NvmlGpus()
    return driver
