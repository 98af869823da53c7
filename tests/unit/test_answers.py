"""Answers of the REST API are told once: in `muster_client/answers`, and where they are rendered."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import defaultdict
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import muster_client.answers

ROOT = Path(__file__).parents[2]
MOST_KEYS = 100
"""Of answers, that stand as literals in more than one module beside those that render or tabulate them."""


def answers() -> list[Any]:
    modules = [
        importlib.import_module(f"muster_client.answers.{module.name}")
        for module in pkgutil.iter_modules(muster_client.answers.__path__)
    ]
    return [found for module in modules for found in vars(module).values() if is_typeddict(found)]


def tells_answers_again(path: Path) -> bool:
    """True if the module handles answers without rendering them or making tables of them."""
    rooms = {"answers", "show"} & set(path.relative_to(ROOT).parts)
    return not rooms and path.name != "render.py"


def test_few_keys_of_answers_are_written_again() -> None:
    keys = {name for answer in answers() for name in get_type_hints(answer)}
    places: dict[str, set[str]] = defaultdict(set)
    for folder in ("platform/muster/api", "muster_client"):
        for path in filter(tells_answers_again, (ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and node.value in keys:
                    places[node.value].add(str(path.relative_to(ROOT)))
    again = {key: sorted(found) for key, found in places.items() if len(found) > 1}
    assert len(again) <= MOST_KEYS, "\n".join(f"{key}: {', '.join(found)}" for key, found in sorted(again.items()))


def test_each_answer_has_a_name_of_its_own() -> None:
    homes = {(found.__module__, found.__name__) for found in answers() if not found.__name__.startswith("_")}
    names = [name for _, name in homes]
    assert sorted(names) == sorted(set(names))
