"""What is made of NVML's answers: the constants and errors are those of the real module, the machine is made up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.gpu import nvml
from nodeagent.gpu.nvml import NvmlGpus

pynvml: Any = pytest.importorskip("pynvml")


def unsupported(*_: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., NvmlGpus]:
    """A machine with one H100; functions of NVML are given by name."""

    def made(**functions: Any) -> NvmlGpus:
        answers: dict[str, Any] = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetPciInfo": lambda _: SimpleNamespace(busId="00000000:01:00.0"),
            "nvmlDeviceGetUUID": lambda _: "GPU-1",
            "nvmlDeviceGetName": lambda _: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30, used=3 << 20),
            "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=87),
            "nvmlDeviceGetPowerUsage": lambda _: 310_200,
            "nvmlDeviceGetTemperature": lambda *_: 61,
            "nvmlDeviceGetComputeRunningProcesses": lambda _: [1, 2],
            "nvmlDeviceGetClockInfo": unsupported,
            "nvmlDeviceGetTotalEccErrors": unsupported,
            "nvmlEventSetCreate": unsupported,
            "nvmlDeviceGetSupportedEventTypes": unsupported,
        }
        for name, function in {**answers, **functions}.items():
            monkeypatch.setattr(nvml.pynvml, name, function)
        return NvmlGpus()

    return made


def test_clocks_and_memory_errors_are_read(machine: Callable[..., NvmlGpus]) -> None:
    clocks = {pynvml.NVML_CLOCK_SM: 1755, pynvml.NVML_CLOCK_MEM: 2619}
    errors = {pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED: 12, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED: 1}

    def count(_: Any, kind: int, since: int) -> int:
        assert since == pynvml.NVML_VOLATILE_ECC
        return errors[kind]

    gpus = machine(
        nvmlDeviceGetClockInfo=lambda _, kind: clocks[kind],
        nvmlDeviceGetTotalEccErrors=count,
    )
    (sample,) = gpus.samples({})
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz) == (1755, 2619)
    assert (sample.ecc_corrected, sample.ecc_uncorrected) == (12, 1)
    assert (sample.utilization, sample.power_w, sample.processes) == (87.0, 310.2, 2)


def test_a_gpu_without_ecc_and_clocks_has_its_other_readings(machine: Callable[..., NvmlGpus]) -> None:
    (sample,) = machine().samples({})
    assert (sample.sm_clock_mhz, sample.ecc_corrected, sample.ecc_uncorrected) == (None, None, None)
    assert (sample.memory_used_mib, sample.temperature_c) == (3, 61.0)
