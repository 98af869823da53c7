"""Snapshots and plans as they are stored: compressed JSON.

A record has up to ten thousand waiting jobs or holds. They are stored by columns: the names of their fields once, and
values that many of them share, such as requests and the words of pending reasons, once each.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import orjson

from scheduler.model import Job, Snapshot
from scheduler.model.codec import from_json
from scheduler.model.plan import Hold, Plan

# The field of a record that is stored by columns: its name, the class of its rows, and the columns with shared values.
_TABLES: dict[type, tuple[str, type, tuple[str, ...]]] = {
    Snapshot: ("waiting", Job, ("request",)),
    Plan: ("holds", Hold, ("detail", "evidence", "helps")),
}


def packed(record: Snapshot | Plan) -> bytes:
    """The compressed JSON that `snapshot_of` and `plan_of` read, written without intermediate dicts.

    The cached indexes of a snapshot are not fields and are left out.
    """
    name, kind, shared = _TABLES[type(record)]
    whole = {each.name: getattr(record, each.name) for each in fields(record)}
    whole[name] = _columns(whole[name], kind, shared)
    return zlib.compress(orjson.dumps(whole), level=1)


def snapshot_of(data: bytes | memoryview) -> Snapshot:
    """The snapshot that was packed."""
    return from_json(Snapshot, _unpacked(data, Snapshot))


def plan_of(data: bytes | memoryview) -> Plan:
    """The plan that was packed."""
    return from_json(Plan, _unpacked(data, Plan))


def _unpacked(data: bytes | memoryview, kind: type) -> dict[str, Any]:
    """The record as plain JSON values, with its rows as dicts."""
    whole: dict[str, Any] = orjson.loads(zlib.decompress(data))
    name, _, _ = _TABLES[kind]
    whole[name] = _rows(whole[name])
    return whole


def _columns(rows: Sequence[Any], kind: type, shared: Sequence[str]) -> dict[str, Any]:
    """The rows as one list for each field, and the values of shared columns by their numbers there."""
    columns = {each.name: list(map(attrgetter(each.name), rows)) for each in fields(kind)}
    values: dict[str, list[Any]] = {}
    for name in shared:
        column = columns[name]
        # Equal values are mostly one object, and some kinds of values have no hash.
        objects = dict(zip(map(id, column), column, strict=True))
        numbers = {key: number for number, key in enumerate(objects)}
        values[name] = list(objects.values())
        columns[name] = [numbers[id(value)] for value in column]
    return {"columns": columns, "values": values}


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = table["columns"]
    for name, values in table["values"].items():
        columns[name] = [values[number] for number in columns[name]]
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
