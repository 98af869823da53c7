"""Snapshots and plans as they are stored: compressed JSON."""

from __future__ import annotations

import zlib
from dataclasses import fields
from typing import Any

import orjson

from scheduler.model import Snapshot, snapshot_from_dict
from scheduler.model.plan import Plan, plan_from_dict


def packed(record: Snapshot | Plan) -> bytes:
    """The JSON that `snapshot_of` and `plan_of` read, written without intermediate dicts.

    The cached indexes of a snapshot are not fields and are left out.
    """
    whole = {each.name: getattr(record, each.name) for each in fields(record)}
    return zlib.compress(orjson.dumps(whole), level=1)


def snapshot_of(data: bytes | memoryview) -> Snapshot:
    """The snapshot that was packed."""
    return snapshot_from_dict(_unpacked(data))


def plan_of(data: bytes | memoryview) -> Plan:
    """The plan that was packed."""
    return plan_from_dict(_unpacked(data))


def _unpacked(data: bytes | memoryview) -> Any:
    return orjson.loads(zlib.decompress(data))
