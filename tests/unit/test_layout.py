"""The shape of the repository: what would break imports, reading or other people's machines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = ROOT / "platform"
MAX_MODULE_LINES = 600
MAX_MODULES = 20
# Docstrings that begin with a question word instead of the value. Lower it when some go, never raise it.
MAX_QUESTIONS = 2
# Folders of one person's machine. A path of this kind in a file works for its author only. (That a file of root's is
# named in an example is something else: every machine has that folder.)
MACHINE_PATH = re.compile(r"(?<![\w.$/-])/(?:(?:home|Users|work)/[A-Za-z0-9_.-]+|root/\.[A-Za-z0-9_.-]+)")
# Text in which such a path is data or an example that is said to be one.
MAY_NAME_PATHS = {"uv.lock", "frontend/package-lock.json", "tests/unit/test_layout.py"}


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    # A file that was just deleted is still in the index.
    return tuple(path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_platform_is_a_source_root_with_one_package_and_no_module() -> None:
    found = [path for path in PLATFORM.iterdir() if path.name != "__pycache__"]
    assert [path.name for path in found] == ["muster"]
    assert (PLATFORM / "muster" / "__init__.py").is_file()


@pytest.mark.parametrize("order", [[ROOT, PLATFORM], [PLATFORM, ROOT]], ids=["root first", "platform first"])
def test_the_standard_librarys_platform_wins(order: list[Path]) -> None:
    code = f"import sys; sys.path[:0] = {[str(path) for path in order]!r}; import platform; print(platform.__file__)"
    shown = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(shown).name == "platform.py"
    assert not Path(shown).is_relative_to(ROOT / "platform")


def test_manage_appends_platform_to_the_path_and_never_inserts() -> None:
    source = (ROOT / "manage.py").read_text()
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert calls.count("sys.path.append") == 1
    assert not {"sys.path.insert", "sys.path.extend"} & set(calls)


def test_no_package_has_the_name_of_a_module_of_the_standard_library() -> None:
    ours = {path.stem if path.suffix else path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    shadowing = (ours & sys.stdlib_module_names) - {"platform"}
    assert shadowing == set()


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    modules = [path for path in tracked() if path.suffix in {".py", ".ts", ".tsx"} and "migrations" not in path.parts]
    generated = ROOT / "frontend" / "src" / "api" / "schema.d.ts"
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in modules if path != generated}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == {}


def test_docstrings_name_the_value_and_begin_with_no_question_word() -> None:
    question = re.compile(r"^\s*r?\"\"\"(What|Who|Whose|How|Where)\b.*", re.MULTILINE)
    found = [
        f"{name_of(path)}: {hit[0].strip()}"
        for path in tracked()
        if path.suffix == ".py"
        for hit in question.finditer(path.read_text())
    ]
    assert len(found) <= MAX_QUESTIONS, "\n".join(found)


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {}
    for path in tracked():
        if name_of(path) in MAY_NAME_PATHS:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if hits := MACHINE_PATH.findall(text):
            found[name_of(path)] = hits
    assert found == {}


def test_state_and_build_products_are_ignored() -> None:
    products = (".muster/x", ".venv/x", "build/x", "frontend/dist/x", "frontend/node_modules/x")
    asked = subprocess.run(["git", "check-ignore", *products], cwd=ROOT, capture_output=True, text=True, check=False)
    assert set(asked.stdout.split()) == set(products)


def test_every_dependency_is_pinned_to_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *(item for extra in project["project"]["optional-dependencies"].values() for item in extra),
        *(item for group in project["dependency-groups"].values() for item in group),
        *project["build-system"]["requires"],
    ]
    assert [item for item in wanted if "==" not in item] == []


def test_the_makefile_describes_every_target_that_it_declares() -> None:
    makefile = (ROOT / "Makefile").read_text()
    declared = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert declared is not None
    assert set(declared[1].split()) == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def contract(name: str) -> dict[str, list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(one for one in contracts if one["name"] == name)


ROOMS = {
    "The platform's apps import downwards": "muster.",
    "The scheduler's rooms": "scheduler.",
    "The agent's rooms": "nodeagent.",
    "The rooms of dispatch": "",
    "The rooms of jobs": "",
    "The rooms of the client": "muster_client.",
}


@pytest.mark.parametrize("name", ROOMS)
def test_the_architecture_page_tells_the_order_of_rooms_that_is_checked(name: str) -> None:
    order = " over ".join(f"`{layer.replace(ROOMS[name], '')}`" for layer in contract(name)["layers"])
    assert order in " ".join((ROOT / "docs/design/architecture.md").read_text().split())


def test_the_architecture_page_says_what_each_room_of_scheduler_agent_and_client_does() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/design/architecture.md").read_text(), re.MULTILINE))
    parts = ("scheduler", "nodeagent", "muster_client")
    assert {room.name for part in parts for room in (ROOT / part).iterdir() if (room / "__init__.py").is_file()} <= told


def test_no_folder_holds_more_modules_than_a_reader_can_look_over() -> None:
    parts = {"platform", "nodeagent", "muster_client"}
    modules = [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in parts]
    sizes = Counter(name_of(path.parent) for path in modules if path.parent.name != "migrations")
    assert {name: size for name, size in sizes.items() if size > MAX_MODULES} == {}


def test_the_platform_may_import_the_agents_protocol_and_its_build_alone() -> None:
    closed = set(contract("The platform uses no inner part of the agent")["forbidden_modules"])
    rooms = {path.stem for path in (ROOT / "nodeagent").iterdir() if not path.stem.startswith("__")}
    commands = {f"cli.{path.stem}" for path in (ROOT / "nodeagent/cli").glob("*.py") if path.stem != "__init__"}
    assert closed == {f"nodeagent.{name}" for name in rooms - {"protocol", "cli"} | commands - {"cli.build"}}
