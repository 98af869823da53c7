"""Formats of tables: letters behind per cent signs, and names between commas."""

from __future__ import annotations

import pytest

from muster.slurm.durations import clock, padded_clock
from muster.slurm.formats import MAX_WIDTH, letters_format, names_format

VALUES = {"i": "700001", "T": "RUNNING", "jobid": "700001", "state": "RUNNING"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%i %T", "700001 RUNNING"),
        ("%.8i|%8i|", "  700001|700001  |"),
        ("%.3T|%3T|", "RUN|RUN|"),
        ("100%% %T", "100% RUNNING"),
        ("%-5T %q %5", "%-5T %q %5"),
        ("", ""),
    ],
)
def test_a_letter_is_a_field_of_a_width(text: str, line: str) -> None:
    assert letters_format(text, {"i", "T"}).line(VALUES.__getitem__) == line


def test_letters_that_are_no_field_are_named() -> None:
    assert letters_format("%-5T %q %i", {"i", "T"}).unknown == ("-", "q")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("JobId,State", f"{'700001':<20}{'RUNNING':<20}"),
        ("jobid:.8,state:4", "  700001RUNN"),
        ("jobid:|,state:", "700001|RUNNING"),
        ("jobid:8;,nope,state:", "700001  ;RUNNING"),
    ],
)
def test_a_name_is_a_field_of_a_width(text: str, line: str) -> None:
    assert names_format(text, {"jobid", "state"}).line(VALUES.__getitem__) == line


def test_names_that_are_no_field_are_named() -> None:
    assert names_format("nope,state", {"state"}).unknown == ("nope",)


def test_a_width_costs_no_memory() -> None:
    assert len(letters_format("%999999999i", {"i"}).line(VALUES.__getitem__)) == MAX_WIDTH


@pytest.mark.parametrize(
    ("seconds", "short", "padded"),
    [
        (5, "0:05", "00:00:05"),
        (1800, "30:00", "00:30:00"),
        (7384, "2:03:04", "02:03:04"),
        (259_200, "3-00:00:00", "3-00:00:00"),
    ],
)
def test_times_that_something_takes(seconds: float, short: str, padded: str) -> None:
    assert (clock(seconds), padded_clock(seconds)) == (short, padded)
