"""The journal: what was synced is there after any crash, and a torn line is a record that was not made."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.state import journal as journal_module
from nodeagent.state.journal import Entry, Journal
from tests.profiles import examples


def reopened(path: Path) -> dict[int, Entry]:
    journal = Journal(str(path))
    entries = dict(journal.entries())
    journal.close()
    return entries


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.intend(1, 5, "boot")
    journal.intend(2, 6, "boot")
    journal.intend(3, 7, "boot")
    journal.strangers(1, {"GPU-1": frozenset({72, 71})})
    journal.hole(1, 10, 19)
    journal.hole(1, 30, 39)
    journal.ended(2)
    journal.shipped(2)
    journal.forget(3)
    journal.close()
    expected = {
        1: Entry(1, 5, "boot", holes=((10, 19), (30, 39)), strangers={"GPU-1": frozenset({71, 72})}),
        2: Entry(2, 6, "boot", ended=True, shipped=True),
    }
    assert reopened(path) == expected
    assert reopened(path) == expected


@settings(max_examples=examples(40))
@given(st.integers(0, 400), st.binary(max_size=30))
def test_a_torn_tail_loses_only_what_was_not_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    journal = Journal(str(path))
    for number in range(6):
        journal.intend(number, number, "boot")
    journal.close()
    content = path.read_bytes()
    path.write_bytes(content[:cut] + garbage.replace(b"\n", b" "))
    kept = content[:cut].count(b"\n")
    entries = reopened(path)
    assert set(range(kept)) <= set(entries)
    # The journal goes on after it.
    journal = Journal(str(path))
    journal.intend(99, 1, "boot")
    journal.close()
    assert set(reopened(path)) == {*entries, 99}


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    for number in (1, 2, 3):
        journal.intend(number, 1, "boot")
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"boot", b"root") + lines[2])
    assert set(reopened(path)) == {1, 3}


def test_it_stays_small_however_much_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_COMPACT_AT_BYTES", 2000)
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.intend(1, 1, "boot")
    for number in range(2, 200):
        journal.intend(number, 1, "boot")
        journal.ended(number)
        journal.forget(number)
        assert path.stat().st_size < 2200
    journal.close()
    assert set(reopened(path)) == {1}


def test_an_intent_that_cannot_be_written_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.intend(1, 1, "boot")

    def half(descriptor: int, data: bytes) -> None:
        journal_module.os.write(descriptor, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(journal_module, "write_all", half)
        with pytest.raises(OSError, match="No space"):
            journal.intend(2, 1, "boot")
        journal.ended(1)  # not worth a failure
    journal.intend(3, 1, "boot")
    assert set(journal.entries()) == {1, 3}
    journal.close()
    assert reopened(path) == {1: Entry(1, 1, "boot"), 3: Entry(3, 1, "boot")}
