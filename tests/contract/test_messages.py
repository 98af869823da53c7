"""The wire format, pinned: the JSON of every message lies beside this file and may only change on purpose.

A message that an older neighbour sent must stay readable, and what we send must stay what is written here. To add a
message, add its file, and the same as the older one, which stays as it is; a field that is new has a default, so that
the older file still reads.
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
OLDER = Path(__file__).parent / "older"
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


def test_every_message_is_kept_as_it_was_at_first() -> None:
    assert sorted(path.stem for path in OLDER.glob("*.json")) == WHOLE


@pytest.mark.parametrize("name", WHOLE)
def test_a_message_of_an_older_neighbour_is_read_and_what_is_new_has_its_default(name: str) -> None:
    content = json.loads((OLDER / f"{name}.json").read_text())
    read = MESSAGES[name].from_dict(content).to_dict()
    assert _common(read, content) == content
    assert (read != content) == (pinned(name) != content)


def test_what_an_agent_of_before_measured_is_taken_over() -> None:
    older = protocol.SyncRequest.from_dict(json.loads((OLDER / "SyncRequest.json").read_text()))
    assert older.usage == ()
    assert (older.gpus[0].power_w, older.gpus[0].sm_clock_mhz, older.gpus[0].ecc_corrected) == (310.2, None, None)


def test_an_xid_of_an_agent_of_before_has_its_number_in_its_sentence_only() -> None:
    older = protocol.SyncRequest.from_dict(json.loads((OLDER / "SyncRequest.json").read_text()))
    assert [(event.kind, event.xid, event.detail) for event in older.health] == [("xid", None, "Xid 79")]


def test_an_agent_that_knows_of_no_progress_tells_none() -> None:
    sample = protocol.UsageSample.from_dict({"id": 812, "fence": 4, "processes": 9})
    assert (sample.progress, sample.progress_s) == (None, None)


def test_an_agent_that_knows_of_no_reports_tells_none() -> None:
    older = protocol.SyncRequest.from_dict(json.loads((OLDER / "SyncRequest.json").read_text()))
    end = protocol.EndRequest.from_dict(json.loads((OLDER / "EndRequest.json").read_text()))
    assert (older.reported, end.points) == ((), ())


def test_an_agent_of_before_registers_without_a_nonce() -> None:
    older = protocol.RegisterRequest.from_dict(json.loads((OLDER / "RegisterRequest.json").read_text()))
    assert older.nonce == ""


def test_an_agent_of_before_does_not_name_its_state_folder() -> None:
    registration = protocol.RegisterRequest.from_dict(json.loads((OLDER / "RegisterRequest.json").read_text()))
    claim = protocol.ClaimRequest.from_dict(json.loads((OLDER / "ClaimRequest.json").read_text()))
    end = protocol.EndRequest.from_dict(json.loads((OLDER / "EndRequest.json").read_text()))
    assert (registration.state_id, claim.state_id, end.state_id) == ("", "", "")


def test_a_platform_that_knows_no_shells_wants_none() -> None:
    older = protocol.SyncResponse.from_dict(json.loads((OLDER / "SyncResponse.json").read_text()))
    assert older.shells == ()


def test_of_a_platform_of_before_an_image_comes_without_a_login() -> None:
    older = protocol.LaunchSpec.from_dict(json.loads((OLDER / "LaunchSpec.json").read_text()))
    assert (older.ask_registry, older.registry_login) == (False, None)


def test_a_platform_of_before_asks_for_no_check_and_so_never_hears_that_one_failed() -> None:
    older = protocol.LaunchSpec.from_dict(json.loads((OLDER / "LaunchSpec.json").read_text()))
    assert older.check_gpus is False


def test_of_a_platform_of_before_no_job_is_stopped_for_what_it_takes_of_a_disk() -> None:
    older = protocol.LaunchSpec.from_dict(json.loads((OLDER / "LaunchSpec.json").read_text()))
    assert older.bounds_disk is False


def test_an_agent_of_before_says_nothing_of_its_disk() -> None:
    older = protocol.SyncRequest.from_dict(json.loads((OLDER / "SyncRequest.json").read_text()))
    assert older.host is not None
    assert (older.host.disk_mib, older.host.disk_free_mib, older.host.disk_full) == (None, None, None)


def test_of_a_platform_of_before_nothing_is_mounted() -> None:
    older = protocol.LaunchSpec.from_dict(json.loads((OLDER / "LaunchSpec.json").read_text()))
    assert (older.mounts, older.mount_roots) == ((), ())


def test_an_agent_of_before_mounts_nothing() -> None:
    older = protocol.RegisterRequest.from_dict(json.loads((OLDER / "RegisterRequest.json").read_text()))
    assert older.inventory.mount_roots == ()


def test_a_platform_of_before_wants_no_checks_and_an_agent_of_before_tells_of_none() -> None:
    answer = protocol.BeatResponse.from_dict(json.loads((OLDER / "BeatResponse.json").read_text()))
    report = protocol.SyncRequest.from_dict(json.loads((OLDER / "SyncRequest.json").read_text()))
    assert answer.checks == report.checks == ()


def test_a_password_is_in_no_text_of_a_spec() -> None:
    spec = protocol.LaunchSpec.from_dict(pinned("LaunchSpec"))
    assert spec.registry_login is not None
    assert spec.registry_login.password == "dckr_pat_1"
    assert "dckr_pat_1" not in repr(spec) + str(spec)


def _common(read: Any, content: Any) -> Any:
    """What was read without the keys that `content` does not have."""
    if isinstance(content, dict):
        return {key: _common(read[key], value) for key, value in content.items()}
    if isinstance(content, list):
        assert len(read) == len(content)
        return [_common(*pair) for pair in zip(read, content, strict=True)]
    return read


def test_the_version_and_the_routes_are_pinned() -> None:
    assert protocol.PROTOCOL_VERSION == 2
    assert (calls.HELLO_PATH, calls.REGISTER_PATH, calls.BEAT_PATH, calls.SYNC_PATH, calls.BATCH_PATH) == (
        "/agent/v1/hello",
        "/agent/v1/register",
        "/agent/v1/beat",
        "/agent/v1/sync",
        "/agent/v1/batch",
    )
    assert calls.claim_path(7) == "/agent/v1/allocations/7/claim"
    assert calls.end_path(7) == "/agent/v1/allocations/7/end"
    assert calls.log_path(7) == "/agent/v1/allocations/7/log"
    assert calls.log_finish_path(7) == "/agent/v1/allocations/7/log:finish"
    assert calls.OUTPUTS_PATH == "/agent/v1/allocations/{id}/outputs"
    assert calls.OUTPUT_PATH == "/agent/v1/allocations/{id}/outputs/{file}"
    assert calls.OUTPUTS_FINISH_PATH == "/agent/v1/allocations/{id}/outputs:finish"
    assert calls.shell_path(7, 31, "open") == "/agent/v1/allocations/7/shells/31/open"
    assert calls.code_path("ab") == "/agent/v1/code/ab"
    assert calls.crc32_hex(b"hello\n") == "363a3020"
