"""The page about the command line tells of every command, option variable and exit status."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

import muster_client
from muster.sbatch.options import OPTIONS
from muster.slurm.registry import COMMANDS as COMMANDS_OF_SLURM
from muster_client import errors
from muster_client.commands.group import LazyCommands
from muster_client.main import MODULES, app
from scheduler.sim.parser import parser
from tests.unit.client.fake_server import Run

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for part, below in inner.items():
        yield from commands(below, f"{name} {part}")


COMMANDS = dict(commands(typer.main.get_command(app), "muster"))


def options_of(name: str) -> set[str]:
    if name == "muster simulate":
        return set(parser(name)._option_string_actions)
    if name in {"muster sbatch", "muster srun"}:
        return {"--json", "--pty", *(f"--{option.name}" for option in OPTIONS)}
    if (slurm := COMMANDS_OF_SLURM.get(name.removeprefix("muster "))) is not None:
        letters = {f"-{option.letter}" for option in slurm.options if option.letter}
        return {"--json", *letters, *(f"--{option.name}" for option in slurm.options)}
    return {option for parameter in COMMANDS[name].params for option in parameter.opts}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (muster .+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sections().keys() == COMMANDS.keys()


def test_every_section_has_an_example_of_its_command() -> None:
    assert [name for name, text in sections().items() if f"```console\n$ {name}" not in text] == []


def test_the_examples_use_only_options_that_exist() -> None:
    for name, text in sections().items():
        example = re.search(r"^\$ muster .*$", text, flags=re.MULTILINE)
        assert example is not None
        used = set(re.findall(r"(?<= )--?[a-z-]+", example.group().split(" -- ")[0]))
        assert used <= options_of(name), name


def test_every_command_has_json() -> None:
    assert [name for name in COMMANDS if "--json" not in options_of(name)] == []


def test_every_command_explains_itself(run: Run) -> None:
    for name in COMMANDS:
        result = run(*name.split()[1:], "--help")
        assert result.exit_code == 0
        assert "--json" in result.stdout


def test_every_exit_status_and_variable_is_there() -> None:
    statuses = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {f"| {status} |" for status in statuses} <= set(re.findall(r"^\| \d+ \|", PAGE, flags=re.MULTILINE))
    source = "".join(path.read_text() for path in Path(errors.__file__).parent.rglob("*.py"))
    variables = set(re.findall(r'"((?:MUSTER|XDG)_[A-Z_]+)"', source))
    assert variables == set(re.findall(r"^\| `([A-Z_]+)` \|", PAGE, flags=re.MULTILINE))


def test_the_help_of_a_group_is_not_cut_short(run: Run) -> None:
    for name in ("", "sweep"):
        shown = run(*name.split(), "--help").stdout
        assert "…" not in shown
        assert "..." not in shown.partition("Commands:")[2]


def test_each_command_of_a_module_is_listed_with_it() -> None:
    commands = LazyCommands(MODULES)
    assert [commands[name].name for name in commands] == list(commands)
    for module, names in MODULES.items():
        found = vars(importlib.import_module(f"muster_client.commands.{module}"))
        groups = [value for value in found.values() if isinstance(value, typer.Typer)]
        grouped = [command.callback for group in groups for command in group.registered_commands]
        own = {name for name, value in found.items() if name.endswith("_command") and value not in grouped}
        assert len(own) + len(groups) == len(names)


def test_a_command_imports_no_library_that_it_does_not_need() -> None:
    code = """
import sys
from muster_client.main import app
for words in (["ls"], ["why", "7"], ["cancel", "--tag", "a=b"]):
    app(["--url", "http://127.0.0.1:1", *words], standalone_mode=False)
print(*sorted({"httpx_sse", "pathspec", "pydantic", "yaml"} & set(sys.modules)))
"""
    environment = {**os.environ, "MUSTER_CONFIG": "/nonexistent"}
    environment.pop("MUSTER_TOKEN", None)
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""
    assert ended.stderr.count("You are not logged in") == 3


def test_the_version_is_that_of_the_package() -> None:
    assert version("muster-cluster") == muster_client.VERSION
