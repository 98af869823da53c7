"""Readings from NVML's answers: the constants and errors are those of the real module, the machine is made up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.gpu import nvml
from nodeagent.gpu.conditions import condition_of
from nodeagent.gpu.nvml import NvmlGpus
from nodeagent.gpu.port import NO_SUCH_GPU, Occupancy
from nodeagent.protocol.messages import HealthEvent

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


def lost(_: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)


def test_a_lost_gpu_is_told_once(machine: Callable[..., NvmlGpus], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = machine()
    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetMemoryInfo", lost)
    assert gpus.samples({}) == gpus.samples({}) == ()
    assert [(event.kind, event.gpu_uuid) for event in gpus.health()] == [("gpu_lost", "GPU-1")]


def test_a_gpu_that_does_not_answer_for_a_moment_is_not_lost(
    machine: Callable[..., NvmlGpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = machine()
    for _ in range(2):
        with monkeypatch.context() as moment:
            moment.setattr(nvml.pynvml, "nvmlDeviceGetMemoryInfo", unsupported)
            assert gpus.samples({}) == gpus.samples({}) == ()
        assert len(gpus.samples({})) == 1
    assert gpus.health() == ()
    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetMemoryInfo", unsupported)
    for _ in range(3):
        assert gpus.samples({}) == ()
    assert [event.kind for event in gpus.health()] == ["gpu_lost"]


def test_what_nvml_counts_becomes_health_events(machine: Callable[..., NvmlGpus]) -> None:
    gpus = machine(nvmlDeviceGetRemappedRows=lambda _: [1, 0, 1, 0])
    assert [(event.kind, event.gpu_uuid) for event in gpus.health()] == [("row_remap_pending", "GPU-1")]


def test_memory_without_a_process_and_slowdowns_are_seen(machine: Callable[..., NvmlGpus]) -> None:
    slow = pynvml.nvmlClocksThrottleReasonHwSlowdown | pynvml.nvmlClocksThrottleReasonSwPowerCap
    given: dict[str, Any] = {
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30, used=9 << 30),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: slow,
        "nvmlDeviceGetRemappedRows": unsupported,
        "nvmlDeviceGetNvLinkState": lambda _, link: link < 2,
        "nvmlDeviceGetNvLinkErrorCounter": lambda _, link, counter: 10 * link + counter,
    }
    machine(**given)
    seen = condition_of(pynvml, nvml._try, "GPU-1", 0)
    assert (seen.held_mib, seen.slowdown, seen.remap_pending) == (9216, "hardware slowdown", False)
    assert seen.nvlink_errors == 10 * 2 + 2 * (
        pynvml.NVML_NVLINK_ERROR_DL_RECOVERY + pynvml.NVML_NVLINK_ERROR_DL_REPLAY
    )
    assert seen.ecc_uncorrected is None


def test_an_xid_that_the_kernel_told_is_not_told_again(
    machine: Callable[..., NvmlGpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        SimpleNamespace(device=0, eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=number)
        for number in (79, 48)
    ]

    def next_event(*_: Any) -> Any:
        if not events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return events.pop(0)

    gpus = machine(
        nvmlEventSetCreate=object,
        nvmlDeviceGetSupportedEventTypes=lambda _: 0,
        nvmlEventSetWait_v2=next_event,
        nvmlDeviceGetRemappedRows=unsupported,
    )
    said = HealthEvent("xid", "GPU-1", "NVRM: Xid (PCI:0000:01:00): 79, off the bus", 79)
    monkeypatch.setattr(gpus._log, "events", lambda _: (said,))
    assert [(event.xid, event.detail) for event in gpus.health()] == [(79, said.detail), (48, "Xid 48")]


HEALTHY: dict[str, Any] = {
    "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
    "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
    "nvmlDeviceGetFieldValues": unsupported,
    "nvmlDeviceGetRemappedRows": lambda _: [0, 0, 0, 0],
}


def recovery(action: int) -> Callable[..., Any]:
    """The driver's answer by which it wants to recover."""
    return lambda *_: [SimpleNamespace(nvmlReturn=pynvml.NVML_SUCCESS, value=SimpleNamespace(uiVal=action))]


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ({}, ""),
        ({"nvmlDeviceGetFieldValues": recovery(0)}, ""),
        ({"nvmlDeviceGetFieldValues": recovery(1)}, "the driver asks for a reset of the GPU"),
        ({"nvmlDeviceGetFieldValues": recovery(9)}, "the driver asks for action 9"),
        ({"nvmlDeviceGetHandleByUUID": lost}, "it does not answer: GPU is lost"),
        ({"nvmlDeviceGetUUID": lambda _: "GPU-2"}, "the driver shows GPU-2 in its place"),
        ({"nvmlDeviceGetRemappedRows": lambda _: [0, 0, 0, 1]}, "a row of its memory could not be remapped"),
        (
            {"nvmlDeviceGetComputeRunningProcesses": lambda _: [SimpleNamespace(pid=71)]},
            "process 71 is on it",
        ),
        (
            {"nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30, used=9 << 30)},
            "9216 MiB are in use and no process is there",
        ),
    ],
)
def test_a_gpu_is_looked_at_before_a_start(
    functions: dict[str, Any], why: str, machine: Callable[..., NvmlGpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = machine(**HEALTHY)
    for name, function in functions.items():
        monkeypatch.setattr(nvml.pynvml, name, function)
    assert gpus.faults(["GPU-1"], ["GPU-1"]) == ((("GPU-1", why),) if why else ())


def refusing(number: int) -> Callable[[Any], Any]:
    def refuse(_: Any) -> Any:
        raise pynvml.NVMLError(number)

    return refuse


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_driver_that_never_lists_processes_costs_no_gpu_and_that_is_said_once(
    error: int, machine: Callable[..., NvmlGpus], caplog: pytest.LogCaptureFixture
) -> None:
    gpus = machine(**{**HEALTHY, "nvmlDeviceGetComputeRunningProcesses": refusing(error)})
    assert gpus.occupancy(["GPU-1"]) == {"GPU-1": Occupancy()}
    assert gpus.faults(["GPU-1"], ["GPU-1"]) == ()
    assert [record.message.split(":")[0] for record in caplog.records if "no process" in record.message] == [
        "no process of GPU GPU-1 can be seen, nor whether one is left there"
    ]


def test_a_gpu_whose_list_fails_is_not_empty_and_passes_no_check(machine: Callable[..., NvmlGpus]) -> None:
    gpus = machine(**{**HEALTHY, "nvmlDeviceGetComputeRunningProcesses": lost})
    why = "it does not answer: GPU is lost"
    assert gpus.occupancy(["GPU-1"]) == {"GPU-1": Occupancy(problem=why)}
    assert gpus.faults(["GPU-1"], ["GPU-1"]) == (("GPU-1", why),)
    assert gpus.faults(["GPU-1"], []) == ()


def test_who_shares_a_gpu_expects_others_on_it(machine: Callable[..., NvmlGpus]) -> None:
    held: dict[str, Any] = {"nvmlDeviceGetComputeRunningProcesses": lambda _: [SimpleNamespace(pid=71)]}
    assert machine(**{**HEALTHY, **held}).faults(["GPU-1", "GPU-7"], []) == (("GPU-7", NO_SUCH_GPU),)
