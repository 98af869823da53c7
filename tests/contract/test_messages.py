"""The wire format, pinned: the JSON of every message lies beside this file and may only change on purpose.

Agents and platforms of several versions of protocol 2 meet in an upgrade: what one of them sends must stay readable, so
a field that is new has a default.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.protocol import calls, shellwire
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import Message

FOLDER = Path(__file__).parent / "messages"
MESSAGES: dict[str, type[Message]] = {
    name: item
    for name, item in sorted({**vars(protocol), **vars(shellwire)}.items())
    if isinstance(item, type) and issubclass(item, Message) and dataclasses.is_dataclass(item)
}
PARTS = {"AllocationReport", "CodeRef", "DesiredAllocation", "GpuInfo", "GpuSample", "HealthEvent", "HostSample"} | {
    "MetricPoint",
    "ProgressNote",
    "ReportedMetrics",
    "OutputFile",
    "OutputSlot",
    "Excluded",
    "RegistryLogin",
    "UsageSample",
    "VolumeMount",
    "CheckResult",
    "WantedCheck",
    "WantedShell",
    "KeptReport",
    "BatchItem",
    "ItemOutcome",
}
WHOLE = sorted(set(MESSAGES) - PARTS - {"Inventory", "Timers"})


def pinned(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def test_every_message_has_its_file_and_every_file_its_message() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == WHOLE


@pytest.mark.parametrize("name", WHOLE)
def test_a_message_reads_and_writes_as_pinned(name: str) -> None:
    assert MESSAGES[name].from_dict(pinned(name)).to_dict() == pinned(name)


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_shows_every_field_with_something_in_it(name: str) -> None:
    content = pinned(name)
    assert set(content) == {item.name for item in dataclasses.fields(MESSAGES[name])}  # type: ignore[arg-type]
    assert [key for key, value in content.items() if value in (None, [], {}, "")] == []


@pytest.mark.parametrize("name", WHOLE)
def test_a_message_of_a_newer_version_is_read(name: str) -> None:
    assert MESSAGES[name].from_dict({**pinned(name), "new_field": [1]}).to_dict() == pinned(name)


def test_a_password_is_in_no_text_of_a_spec() -> None:
    spec = protocol.LaunchSpec.from_dict(pinned("LaunchSpec"))
    assert spec.registry_login is not None
    assert spec.registry_login.password == "dckr_pat_1"
    assert "dckr_pat_1" not in repr(spec) + str(spec)


def test_the_version_and_the_routes_are_pinned() -> None:
    assert protocol.PROTOCOL_VERSION == 2
    assert (calls.HELLO_PATH, calls.REGISTER_PATH, calls.BEAT_PATH, calls.SYNC_PATH, calls.BATCH_PATH) == (
        "/agent/v1/hello",
        "/agent/v1/register",
        "/agent/v1/beat",
        "/agent/v1/sync",
        "/agent/v1/batch",
    )
    assert calls.log_path(7) == "/agent/v1/allocations/7/log"
    assert calls.OUTPUTS_PATH == "/agent/v1/allocations/{id}/outputs"
    assert calls.OUTPUT_PATH == "/agent/v1/allocations/{id}/outputs/{file}"
    assert calls.OUTPUTS_FINISH_PATH == "/agent/v1/allocations/{id}/outputs:finish"
    assert calls.shell_path(7, 31, "open") == "/agent/v1/allocations/7/shells/31/open"
    assert calls.code_path("ab") == "/agent/v1/code/ab"
    assert calls.crc32_hex(b"hello\n") == "363a3020"
