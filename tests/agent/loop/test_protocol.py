"""Strict reading of messages, and the small formats beside them."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.protocol import calls
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import (
    AllocationReport,
    BeatRequest,
    EndReason,
    EndRequest,
    Excluded,
    HealthEvent,
    Inventory,
    LaunchSpec,
    LogFinishRequest,
    Message,
    Observed,
    OutputFile,
    ProgressNote,
    ProtocolError,
    SyncRequest,
)

MESSAGES = sorted(
    (item for item in vars(protocol).values() if isinstance(item, type) and issubclass(item, Message)),
    key=lambda item: item.__name__,
)[:]

REPORT = {"id": 1, "fence": 2, "observed": "running"}
SYNC = {"epoch": 1, "seq": 1, "boot_id": "b", "generation": "", "wait_s": 0, "allocations": [REPORT]}


def change(path: str, value: object) -> dict[str, Any]:
    report = dict(REPORT)
    message: dict[str, Any] = {**SYNC, "allocations": [report]}
    (report if path in report or path == "log_size" else message)[path] = value
    return message


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("epoch", "1", "epoch: expected an integer, got a string"),
        ("epoch", 1.0, "epoch: expected an integer, got a number"),
        ("epoch", True, "epoch: expected an integer, got a boolean"),
        ("epoch", None, "epoch: expected an integer, got null"),
        ("epoch", 1 << 63, "epoch: does not fit in 64 bits"),
        ("wait_s", "0", "wait_s: expected a number, got a string"),
        ("wait_s", True, "wait_s: expected a number, got a boolean"),
        ("wait_s", float("inf"), "wait_s: is not finite"),
        ("wait_s", float("nan"), "wait_s: is not finite"),
        ("wait_s", 10**400, "wait_s: is out of range"),
        ("boot_id", 5, "boot_id: expected a string, got an integer"),
        ("boot_id", "a\0b", "boot_id: has a NUL character"),
        ("boot_id", "\ud800", "boot_id: is not valid Unicode"),
        ("allocations", {}, "allocations: expected a list, got an object"),
        ("allocations", [REPORT, 7], r"allocations\[1\]: expected an object, got an integer"),
        ("observed", "asleep", r"allocations\[0\].observed: expected one of exited, none, running, starting"),
        ("log_size", "x", r"allocations\[0\].log_size: expected an integer"),
        ("host", {"load1": "x"}, "host.load1: expected a number"),
        ("gpus", [{}], r"gpus\[0\].uuid: is missing"),
    ],
)
def test_a_wrong_field_is_named(path: str, value: object, named: str) -> None:
    with pytest.raises(ProtocolError, match=named):
        SyncRequest.from_dict(change(path, value))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ProtocolError, match="seq: is missing") as caught:
        BeatRequest.from_dict({"epoch": 1, "boot_id": "b"})
    assert caught.value.field == "seq"


def test_unknown_keys_are_ignored_and_defaults_fill_in() -> None:
    message = SyncRequest.from_dict({**SYNC, "new_in_version_2": {"x": 1}})
    assert message.gpus == ()
    assert message.allocations == (AllocationReport(1, 2, Observed.RUNNING),)


@pytest.mark.parametrize("holes", [[[1]], [[1, 2, 3]], [1], [["1", 2]]])
def test_a_range_has_two_ends(holes: object) -> None:
    with pytest.raises(ProtocolError, match="holes"):
        LogFinishRequest.from_dict({"fence": 1, "size": 2, "sha256": "", "holes": holes})


def test_env_holds_only_strings() -> None:
    spec = {
        "allocation_id": 1,
        "job_id": 1,
        "attempt": 1,
        "rank": 0,
        "fence": 1,
        "name": "n",
        "owner": "o",
        "command": "c",
    }
    assert LaunchSpec.from_dict(spec).env == {}
    with pytest.raises(ProtocolError, match=r"env\.A: expected a string"):
        LaunchSpec.from_dict({**spec, "env": {"A": 1}})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        BeatRequest.from_json(body)


def _values(hint: Any, letters: str = "ab\n\u20ac\U0001f600") -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return st.none() | _values(arguments[0], letters)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(_values(arguments[0], letters), max_size=2).map(tuple)
        return st.tuples(*(_values(argument, letters) for argument in arguments))
    if origin is not None:
        text = _values(str, letters)
        return st.dictionaries(text, text, max_size=2)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _messages(hint)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-(1 << 63), (1 << 63) - 1),
        bool: st.booleans(),
        float: st.floats(-1e15, 1e15),
        str: st.text(letters, max_size=5),
    }
    return plain[hint] if hint in plain else st.sampled_from(hint)


def _messages(message: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(message)
    values = {
        item.name: _values(hints[item.name], "ab\u20ac\U0001f600") if item.metadata else _values(hints[item.name])
        for item in dataclasses.fields(message)
    }
    if "address" in values:
        values["address"] = st.sampled_from(["", "10.0.0.1", "::1", "gpu1.example.org"])
    return st.builds(message, **values)


BIDI = "\u202e"
INVENTORY: dict[str, Any] = {"hostname": "h", "address": "10.0.0.1", "cpus": 1, "memory_mib": 1}
GPU: dict[str, Any] = {"index": 0, "uuid": "GPU-1", "model": "A100", "memory_mib": 1}
END: dict[str, Any] = {"fence": 1, "boot_id": "b", "state_id": "s", "reason": "completed"}


@pytest.mark.parametrize(
    ("kind", "data", "named"),
    [
        (Inventory, {**INVENTORY, "address": "10.0.0.1,10.0.0.2"}, "address: expected an IP address or a host name"),
        (Inventory, {**INVENTORY, "address": "fe80::1%x,10.0.0.2"}, "address: expected an IP address or a host name"),
        (Inventory, {**INVENTORY, "address": "gpu1 gpu2"}, "address: expected an IP address or a host name"),
        (Inventory, {**INVENTORY, "address": "a" * 256}, "address: expected an IP address or a host name"),
        (Inventory, {**INVENTORY, "hostname": "h\x1b[2J"}, r"hostname: has the unprintable character U\+001B"),
        (Inventory, {**INVENTORY, "hostname": "h" * 256}, "hostname: has 256 characters; at most 255 are allowed"),
        (Inventory, {**INVENTORY, "labels": {"k": BIDI}}, r"labels\.k: has the unprintable character U\+202E"),
        (Inventory, {**INVENTORY, "labels": {BIDI: "v"}}, "labels: has the unprintable character"),
        (Inventory, {**INVENTORY, "mount_roots": ["/data", "/a\nb"]}, r"mount_roots\[1\]: has the unprintable"),
        (Inventory, {**INVENTORY, "gpus": [{**GPU, "model": BIDI}]}, r"gpus\[0\]\.model: has the unprintable"),
        (Inventory, {**INVENTORY, "gpus": [{**GPU, "uuid": "u" * 81}]}, r"gpus\[0\]\.uuid: has 81 characters"),
        (BeatRequest, {"epoch": 1, "seq": 1, "boot_id": "b" * 201}, "boot_id: has 201 characters"),
        (EndRequest, {**END, "detail": "x" * 5000}, "detail: has 5000 characters; at most 4096 are allowed"),
        (EndRequest, {**END, "detail": "a\nb"}, r"detail: has the unprintable character U\+000A"),
        (OutputFile, {"path": "a\u2066b", "size": 1}, "path: has the unprintable character"),
        (Excluded, {"path": "a\u200fb", "reason": "changed"}, "path: has the unprintable character"),
        (Excluded, {"path": "a" * 1025, "reason": "changed"}, "path: has 1025 characters"),
        (ProgressNote, {"id": 1, "fence": 1, "text": "\u061c"}, "text: has the unprintable character"),
        (HealthEvent, {"kind": "xid\r", "detail": ""}, "kind: has the unprintable character"),
    ],
)
def test_a_hostile_text_is_refused_by_field(kind: type[Message], data: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError, match=named):
        kind.from_dict(data)


@pytest.mark.parametrize("address", ["", "10.0.0.1", "::1", "fe80::1%eth0", "gpu-1", "gpu1.example.org"])
def test_an_address_is_an_ip_address_or_a_host_name(address: str) -> None:
    assert Inventory.from_dict({**INVENTORY, "address": address}).address == address


def test_an_agent_sends_what_others_say_as_one_printable_line() -> None:
    end = EndRequest(1, "b", "s", EndReason.LAUNCH_FAILED, detail=f"docker:\tno\n{BIDI}" + "x" * 5000)
    sent = EndRequest.from_dict(end.to_dict()).detail
    assert sent.startswith("docker: no \\u202ex")
    assert len(sent) == 4096


@given(st.sampled_from([item for item in MESSAGES if dataclasses.is_dataclass(item)]).flatmap(_messages))
def test_every_message_survives_its_json(message: Message) -> None:
    assert type(message).from_json(message.to_json()) == message


@given(st.integers(0, 10**15), st.integers(1, 10**6))
def test_ranges_survive_their_text(start: int, length: int) -> None:
    assert calls.parse_content_range(calls.content_range(start, length)) == (start, start + length - 1)
    assert calls.parse_range(calls.format_range(start, start + length)) == (start, start + length)


@pytest.mark.parametrize(
    "text", ["", "5", "5-", "-5", "7-5", "a-b", "+1-5", "1-5-6", "1 -5", "\u0661-5", "9" * 19 + "-5"]
)
def test_a_broken_range_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        calls.parse_range(text)


@pytest.mark.parametrize("text", ["0-5", "bytes 0-5", "bytes 0-5/6", "bytes */5"])
def test_a_broken_content_range_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        calls.parse_content_range(text)
