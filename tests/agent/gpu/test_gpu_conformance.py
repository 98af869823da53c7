"""Duties of every GPU driver. NVML is tried where there is a driver."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.gpu.choose import open_gpus
from nodeagent.gpu.emulated import EmulatedGpus, parse_models
from nodeagent.gpu.nvml import NvmlGpus
from nodeagent.gpu.port import NO_SUCH_GPU, GpuDriver, GpuUnavailable, NoGpus, Occupancy
from nodeagent.protocol.messages import GpuInfo
from nodeagent.runtime.port import Usage


@pytest.fixture(params=["emulated", "nvml"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GpuDriver]:
    made: GpuDriver
    if request.param == "emulated":
        made = EmulatedGpus(parse_models("A100:4,V100:2"), "here", str(tmp_path / "faults"))
    else:
        try:
            made = NvmlGpus()
        except GpuUnavailable as error:
            pytest.skip(str(error))
    yield made
    made.close()


def test_the_inventory_names_each_gpu_once_and_stays_the_same(driver: GpuDriver) -> None:
    gpus = driver.inventory()
    assert gpus == driver.inventory()
    assert [gpu.index for gpu in gpus] == list(range(len(gpus)))
    assert len({gpu.uuid for gpu in gpus}) == len(gpus) > 0
    assert all(gpu.model and gpu.memory_mib > 0 for gpu in gpus)


def test_the_topology_is_a_symmetric_matrix(driver: GpuDriver) -> None:
    rows = driver.topology()
    size = len(driver.inventory())
    assert [len(row) for row in rows] == [size] * size
    for one in range(size):
        for other in range(size):
            assert rows[one][other] == rows[other][one]
            assert (rows[one][other] == "X") == (one == other)


def test_every_gpu_gives_a_reading_within_its_bounds(driver: GpuDriver) -> None:
    gpus = {gpu.uuid: gpu for gpu in driver.inventory()}
    samples = driver.samples({})
    assert {sample.uuid for sample in samples} == set(gpus)
    for sample in samples:
        assert sample.utilization is None or 0 <= sample.utilization <= 100
        assert sample.memory_used_mib is not None
        assert 0 <= sample.memory_used_mib <= gpus[sample.uuid].memory_mib
        for clock_mhz in (sample.sm_clock_mhz, sample.memory_clock_mhz):
            assert clock_mhz is None or 0 < clock_mhz < 20_000
        for errors in (sample.ecc_corrected, sample.ecc_uncorrected):
            assert errors is None or errors >= 0


def test_a_quiet_driver_has_no_health_events_and_a_version(driver: GpuDriver) -> None:
    assert driver.health() == ()
    assert driver.driver_version()


def test_nobody_is_on_a_gpu_that_nobody_uses(driver: GpuDriver) -> None:
    first = driver.inventory()[0].uuid
    assert driver.occupancy(["no such GPU", first]) == {first: Occupancy()}
    assert driver.occupancy([]) == {}


class Staged:
    """A driver with a GPU on which the test puts what it likes."""

    def __init__(self, driver: GpuDriver, stage: Callable[[int, str], None]) -> None:
        self.driver = driver
        self.uuid = driver.inventory()[0].uuid
        self.stage = stage

    @property
    def there(self) -> Occupancy:
        return self.driver.occupancy([self.uuid])[self.uuid]


@pytest.fixture(params=["emulated", "nvml"])
def staged(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    """Each driver, with a process on its first GPU (0: none) or a list of them that cannot be had."""
    if request.param == "emulated":
        faults = tmp_path / "faults"

        def inject(pid: int, error: str) -> None:
            listed = {"gpu": 0, "kind": "list_fails", "over": not error}
            with faults.open("a") as file:
                file.write(f'{{"gpu": 0, "kind": "process_left", "pid": {pid}}}\n{json.dumps(listed)}\n')

        return Staged(EmulatedGpus(parse_models("A100:2"), "here", str(faults)), inject)
    pynvml: Any = pytest.importorskip("pynvml")
    there: list[Any] = [[], ""]

    def processes(_: object) -> list[SimpleNamespace]:
        if there[1]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return [SimpleNamespace(pid=pid) for pid in there[0]]

    def put(pid: int, error: str) -> None:
        there[:] = [[pid] if pid else [], error]

    monkeypatch.setattr("nodeagent.gpu.nvml.pynvml", pynvml)
    gpu = GpuInfo(0, "GPU-1", "H100", 81559, "00000000:01:00.0", None)
    driver = object.__new__(NvmlGpus)
    driver._gpus, driver._handle_of = (gpu,), {"GPU-1": 0}
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", processes)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda _: SimpleNamespace(used=9 << 30))
    return Staged(driver, put)


def test_a_process_that_was_left_is_named_until_it_is_gone(staged: Staged) -> None:
    staged.stage(71, "")
    assert staged.there == Occupancy(frozenset({71}))
    staged.stage(0, "")
    assert staged.there == Occupancy()


def test_a_gpu_whose_processes_cannot_be_listed_is_not_taken_for_empty(staged: Staged) -> None:
    staged.stage(0, "an error")
    assert staged.there.problem.startswith("it does not answer")
    staged.stage(0, "")
    assert staged.there == Occupancy()


def test_an_emulated_list_hangs_until_that_is_over(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    driver = EmulatedGpus(parse_models("A100:1"), "here", str(faults))
    uuid = driver.inventory()[0].uuid
    faults.write_text('{"gpu": 0, "kind": "process_left", "pid": 71}\n{"gpu": 0, "kind": "list_hangs"}\n')
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(driver.faults([uuid], [uuid])), daemon=True).start()
    with pytest.raises(queue.Empty):
        answers.get(timeout=0.2)
    with faults.open("a") as file:
        file.write('{"gpu": 0, "kind": "list_hangs", "over": true}\n')
    assert answers.get(timeout=10) == ((uuid, "process 71 is on it"),)
    assert driver.faults([uuid], []) == driver.health() == ()


def test_a_quiet_gpu_is_fit_and_one_that_is_not_there_is_not(driver: GpuDriver) -> None:
    first = driver.inventory()[0].uuid
    assert driver.faults([first], [first]) == ()
    assert driver.faults(["no such GPU", first], [first]) == (("no such GPU", NO_SUCH_GPU),)


def test_memory_that_was_left_is_a_fault_until_it_is_gone_and_none_of_who_shares(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    driver = EmulatedGpus(parse_models("A100:2"), "here", str(faults))
    first, second = (gpu.uuid for gpu in driver.inventory())
    faults.write_text('{"gpu": 0, "kind": "memory_left", "mib": 9216}\n')
    why = "9216 MiB are in use and no process is there"
    assert driver.faults([first, second], [first, second]) == ((first, why),)
    assert driver.faults([first], []) == driver.health() == ()
    assert driver.samples({})[0].memory_used_mib == 9216
    with faults.open("a") as file:
        file.write('{"gpu": 0, "kind": "memory_left", "mib": 0}\n{"gpu": 1, "kind": "gpu_lost"}\n')
    assert driver.faults([first, second], [first, second]) == ((second, "it does not answer"),)


def test_a_self_test_has_a_result_or_is_not_supported(driver: GpuDriver) -> None:
    outcome = driver.self_test(driver.inventory()[0].uuid, lambda _: True)
    assert outcome is None or (outcome.is_right and outcome.how)


def test_an_emulated_self_test_gives_a_wrong_result_or_hangs_when_asked(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    driver = EmulatedGpus(parse_models("A100:1,V100:1"), "here", str(faults))
    first, second = (gpu.uuid for gpu in driver.inventory())
    faults.write_text('{"gpu": 0, "kind": "work_wrong"}\n{"gpu": 1, "kind": "work_hangs"}\n')
    driver.faults([first], [])  # it reads what was injected
    waits: list[float] = []
    wrong, right = driver.self_test(first, lambda _: False), driver.self_test(first, lambda _: False)
    assert wrong is not None
    assert right is not None
    assert (wrong.is_right, right.is_right, right.tflops) == (False, True, 14.1)
    assert driver.self_test(second, lambda seconds: not waits.append(seconds)) is None
    assert waits == [60.0]
    assert driver.health() == ()


def test_emulated_readings_follow_what_runs() -> None:
    driver = EmulatedGpus(parse_models("A100:2"), "here")
    first, second = (gpu.uuid for gpu in driver.inventory())
    busy, idle = driver.samples({first: Usage(processes=3, cpu_fraction=0.5, rss_mib=1000)})
    assert (busy.utilization, busy.processes, busy.memory_used_mib) == (50.0, 3, 1400)
    assert (idle.uuid, idle.utilization, idle.processes, idle.memory_used_mib) == (second, 0.0, 0, 0)
    assert busy.power_w is not None
    assert idle.power_w is not None
    assert busy.power_w > idle.power_w
    assert (busy.sm_clock_mhz, idle.sm_clock_mhz, busy.memory_clock_mhz) == (1410, 210, 1593)


def test_emulated_uuids_follow_from_the_identity() -> None:
    def uuids(identity: str) -> list[str]:
        return [gpu.uuid for gpu in EmulatedGpus(parse_models("A100:8"), identity).inventory()]

    assert uuids("one") == uuids("one")
    assert not set(uuids("one")) & set(uuids("two"))
    assert all(uuid.startswith("GPU-emu-") for uuid in uuids("one"))


def test_injected_faults_are_told_once_and_a_lost_gpu_is_silent(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    driver = EmulatedGpus(parse_models("A100:2"), "here", str(faults))
    faults.write_text('{"gpu": 0, "kind": "ecc", "detail": "double-bit"}\n{"gpu": 1, "kind": "gpu_lo')
    assert len(driver.samples({})) == 2
    assert [(event.kind, event.detail) for event in driver.health()] == [("ecc", "double-bit")]
    with faults.open("a") as file:
        file.write('st"}\n')
    assert len(driver.samples({})) == 1
    assert [event.kind for event in driver.health()] == ["gpu_lost"]
    assert driver.health() == ()


def test_injected_errors_are_counted_and_throttling_halves_the_clock(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    driver = EmulatedGpus(parse_models("A100:2"), "here", str(faults))
    first, second = (gpu.uuid for gpu in driver.inventory())
    faults.write_text(
        '{"gpu": 0, "kind": "ecc"}\n{"gpu": 0, "kind": "ecc_corrected", "count": 12}\n'
        '{"gpu": 0, "kind": "throttle"}\n{"gpu": 0, "kind": "ecc"}\n'
    )
    hurt, sound = driver.samples({first: Usage(processes=1), second: Usage(processes=1)})
    assert (hurt.ecc_uncorrected, hurt.ecc_corrected, hurt.sm_clock_mhz) == (2, 12, 705)
    assert (sound.ecc_uncorrected, sound.ecc_corrected, sound.sm_clock_mhz) == (0, 0, 1410)
    assert [event.kind for event in driver.health()] == ["ecc", "throttle", "ecc"]


@pytest.mark.parametrize(
    "spec", ["emulated", "emulated:", "emulated:A100", "emulated:A100:0", "emulated:A100:x", "rocm"]
)
def test_a_wrong_choice_is_named(spec: str) -> None:
    with pytest.raises(GpuUnavailable):
        open_gpus(spec, "here", "")


def test_none_is_a_choice() -> None:
    assert isinstance(open_gpus("none", "here", ""), NoGpus)
    assert NoGpus().inventory() == NoGpus().samples({}) == ()
    assert NoGpus().self_test("GPU-1", lambda _: False) is None
    assert NoGpus().occupancy(["GPU-1"]) == {}
    assert NoGpus().faults(["GPU-1"], []) == (("GPU-1", NO_SUCH_GPU),)
