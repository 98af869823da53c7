"""The scheduler has no clock, no randomness and no outside world of its own: all of it comes in the snapshot."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[4] / "scheduler"
# The simulator around the decisions reads files, draws lots and measures itself, and a run forward ends when its time
# is used up; what decides does not.
AROUND = {"sim", "forward"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in AROUND)

# An allow list: to import another module, add it here with the reason why it is pure.
ALLOWED_IMPORTS = {
    "__future__", "bisect", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "heapq",
    "itertools", "json", "math", "scheduler", "statistics", "types", "typing",
    "datetime",  # only to write a moment of the snapshot in words
    "importlib", "inspect", "pkgutil",  # only to find the plug-ins and what they say of themselves
    "weakref",  # keeps what follows from a value for as long as there is the value
    "zlib",  # only its checksum, and to store bytes smaller
    "numpy",  # arithmetic on arrays; the test below refuses its random numbers
    "highspy", "scipy",  # solvers, with one thread and bounds by counts
    "lightgbm",  # fits trees from a seed, with the threads that the caller allows
    "random",  # only `Random` with the snapshot's seed; the test below refuses the generator that all share
    "re", "re2",  # patterns of what is in the snapshot, or in a log that the caller has
}  # fmt: skip
# The classifier's rules are data beside it, read once; other documents are texts that the caller has.
READS_ITS_RULES = {"diagnosis/failures/rules.py": {"pathlib"}, "documents.py": {"yaml"}}
FORBIDDEN_CALLS = {
    "now", "utcnow", "today", "open", "print", "input", "id", "hash", "eval", "exec", "globals", "default_rng",
}  # fmt: skip


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node.func.id


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_reaches_for_nothing_outside(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    allowed = ALLOWED_IMPORTS | READS_ITS_RULES.get(module.relative_to(PACKAGE).as_posix(), set())
    assert {name.partition(".")[0] for name in imports(tree)} <= allowed
    assert not set(calls(tree)) & FORBIDDEN_CALLS
    named = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module == "random"
    ]
    assert set(named) <= {"Random"}
    assert "random" not in {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }


def test_the_modules_are_found() -> None:
    assert PACKAGE / "engine" / "cycle.py" in MODULES
