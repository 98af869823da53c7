"""Events from the records of the kernel's log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.gpu.kernellog import KERNEL_LOG, KernelLog, address, health_event

UUID_OF = {"0000:01:00": "GPU-1", "0000:c1:00": "GPU-2"}
XID_79 = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[tuple[KernelLog, int]]:
    """A log that reads what is written to the other end: a record at each read, as the kernel's gives them."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    reader = KernelLog.__new__(KernelLog)
    reader._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield reader, writer
    reader.close()
    os.close(writer)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (XID_79, ("xid", "GPU-1", 79)),
        ("NVRM: Xid (PCI:0000:C1:00): 13, pid=77, name=python, Graphics Exception", ("xid", "GPU-2", 13)),
        ("NVRM: Xid (PCI:00000000:c1:00.0): 48, DBE", ("xid", "GPU-2", 48)),
        ("NVRM: Xid (0000:01:00): 31, Ch 00000010", ("xid", "GPU-1", 31)),
        ("NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", ("gpu_lost", "GPU-1", None)),
        ("NVRM: GPU at PCI:0000:c1:00 has fallen off the bus and is not responding", ("gpu_lost", "GPU-2", None)),
        ("NVRM: Xid (PCI:0000:99:00): 79, of a GPU that is not ours", None),
        ("NVRM: GPU at PCI:0000:01:00: GPU-abc", None),
        ("python: NVRM: nothing", None),
        ("usb 1-1: new device", None),
    ],
)
def test_a_record_is_read(message: str, found: tuple[str, str, int | None] | None) -> None:
    event = health_event(f"4,1234,56789,-;{message}\n SUBSYSTEM=pci\n", UUID_OF)
    assert (None if event is None else (event.kind, event.gpu_uuid, event.xid)) == found
    if event is not None:
        assert event.detail == message


@pytest.mark.parametrize("priority", ["12", "14", "", "-1", "x"])
def test_what_is_not_the_kernels_own_is_left_out(priority: str) -> None:
    assert health_event(f"{priority},1,2,-;{XID_79}", UUID_OF) is None


def test_a_hostile_record_costs_nothing() -> None:
    flood = "4,1,2,-;" + "NVRM: Xid (PCI:" * 600 + "NVRM: " + "0000:01:00 " * 800
    assert health_event(flood, UUID_OF) is None


def test_every_record_is_told_once_and_none_blocks(fifo: tuple[KernelLog, int]) -> None:
    log, writer = fifo
    assert log.events(UUID_OF) == ()
    os.write(writer, f"4,1,2,-;{XID_79}\n".encode())
    assert [event.xid for event in log.events(UUID_OF)] == [79]
    assert log.events(UUID_OF) == ()


def test_a_log_that_may_not_be_read_has_no_events(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = KernelLog(str(tmp_path / "none"))
    assert log.events(UUID_OF) == ()
    assert "Xids are known from NVML only" in caplog.text
    log.close()


def test_the_kernels_own_log_is_read_from_its_end() -> None:
    if not os.access(KERNEL_LOG, os.R_OK):
        pytest.skip("the kernel's log may not be read here")
    log = KernelLog()
    assert log.events(UUID_OF) == ()
    log.close()


def test_addresses_are_compared_whatever_the_driver_calls_them() -> None:
    assert {address(pci) for pci in ("00000000:C1:00.0", "0000:c1:00", "0000:C1:00.0")} == {"0000:c1:00"}
