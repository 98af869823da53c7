"""The drawings of docs/reference/states.md show the transition tables, no arrow more and none less."""

import re
from pathlib import Path

import pytest

from scheduler.model.lifecycle import TABLES, TransitionError, require_move

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "states.md"

BLOCK = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
NAME = re.compile(r'state "(\w+)" as \1 {')
ARROW = re.compile(r"^\s*(\S+) --> (\S+)\s*$", re.MULTILINE)
EDGE = "[*]"


def drawings() -> dict[str, list[tuple[str, str]]]:
    """The arrows of each drawing by the name of its table."""
    found = {}
    for block in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        (name,) = NAME.findall(block)
        found[name] = ARROW.findall(block)
    return found


def test_each_table_is_drawn_once() -> None:
    assert sorted(drawings()) == sorted(TABLES)
    assert len(BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))) == len(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_the_arrows_are_the_moves(name: str) -> None:
    arrows = [(source, target) for source, target in drawings()[name] if EDGE not in (source, target)]
    assert sorted(arrows) == sorted(
        (str(source), str(target)) for source in TABLES[name] for target in TABLES[name][source]
    )


@pytest.mark.parametrize("name", TABLES)
def test_the_first_state_and_the_final_ones_are_marked(name: str) -> None:
    first = [target for source, target in drawings()[name] if source == EDGE]
    final = [source for source, target in drawings()[name] if target == EDGE]
    assert first == [str(next(iter(TABLES[name])))]
    assert sorted(final) == sorted(str(state) for state, targets in TABLES[name].items() if not targets)


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached_and_stands_in_its_table(name: str) -> None:
    table = TABLES[name]
    first, *others = table
    assert set(table) == set(type(first))
    assert set().union(*table.values()) >= set(others)


@pytest.mark.parametrize("name", TABLES)
def test_a_move_is_allowed_exactly_when_it_is_in_the_table(name: str) -> None:
    for source, targets in TABLES[name].items():
        for target in TABLES[name]:
            if target in targets:
                require_move(name, source, target)
            else:
                with pytest.raises(TransitionError, match=f"{name}: {source} cannot become {target}; it can become "):
                    require_move(name, source, target)
