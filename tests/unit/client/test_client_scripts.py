"""The words behind `muster sbatch`."""

from __future__ import annotations

from muster.sbatch.options import OPTIONS, Takes
from muster_client.local.scripts import FLAGS, SHORT_FLAGS, split


def test_the_client_knows_which_options_take_no_word() -> None:
    without = [option for option in OPTIONS if option.takes is not Takes.VALUE]
    assert {option.name for option in without} == FLAGS
    assert {option.short for option in without if option.short} == SHORT_FLAGS


def test_options_end_at_the_script_and_the_rest_is_its_own() -> None:
    typed = split(["-J", "name", "--hold", "-N2", "--time", "5", "--exclusive", "-HJ", "x", "run.sh", "--lr", "0.1"])
    assert typed.script == "run.sh"
    assert typed.arguments == ("--lr", "0.1")
    assert typed.options == ("-J", "name", "--hold", "-N2", "--time", "5", "--exclusive", "-HJ", "x")


def test_a_wrapped_command_has_no_script() -> None:
    typed = split(["--wrap", "python a.py", "-t", "5"])
    assert (typed.wraps, typed.script, typed.options) == (True, None, ("--wrap", "python a.py", "-t", "5"))


def test_without_a_script_it_comes_from_standard_input() -> None:
    assert split(["--parsable"]).script is None
