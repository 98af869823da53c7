"""The groups of commands: help that is not cut short, and imports of what a command needs only.

Typer reads every value through pydantic, even one that was not given, and to import pydantic takes half as long as all
else that a command imports. So text, numbers of jobs and defaults are taken as they are, and pydantic reads the rest.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import typer
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer.core import TyperGroup

# Longer than any first sentence of a command.
_WHOLE_SENTENCE = 1000


class Group(TyperGroup):
    """A group whose help has the whole first sentence of each command, over several lines where it is long."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of the group itself."""
        _read_plainly(self, ctx)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or None."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _read_plainly(command, ctx)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(_WHOLE_SENTENCE)) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class LazyCommands(Mapping[str, Any]):
    """Commands by their names; the module of a command is imported when the command is looked up.

    The command `dry-run` is the module's `dry_run_command`, the group `sweep` its `sweep_app`.
    """

    def __init__(self, modules: Mapping[str, tuple[str, ...]]) -> None:
        self._module_of = {name: module for module, names in modules.items() for name in names}
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            app = typer.Typer(rich_markup_mode=None)
            # Typer makes no group of a single command, unless the group has a callback.
            app.callback()(_nothing)
            module = importlib.import_module(f"muster_client.commands.{self._module_of[name]}")
            word = name.replace("-", "_")
            if hasattr(module, f"{word}_app"):
                app.add_typer(getattr(module, f"{word}_app"), name=name)
            else:
                settings = getattr(module, "CONTEXT_SETTINGS", {}).get(name)
                app.command(name, context_settings=settings)(getattr(module, f"{word}_command"))
            self._found.update(typer.main.get_group(app).commands)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)


@dataclass(frozen=True)
class _PlainParam(RuntimeParam):
    """Takes what needs no conversion but by a parser of ours, and leaves all else to pydantic."""

    descriptor: TypeDescriptor

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        whole = isinstance(value, list | tuple)
        parts = tuple(value) if whole else (value,)
        wanted = get_args(self.annotation)[:1] if whole else (self.annotation,)
        parser = self.parameter_info.parser
        if parser is not None and all(isinstance(part, str) for part in parts):
            parts = tuple(parser(part) for part in parts)
        elif not all((type(part),) == wanted for part in parts):
            return build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)
        return list(parts) if whole else parts[0]


def _read_plainly(command: Any, ctx: Any) -> None:
    for param in command.get_params(ctx):
        if param._runtime_param is None:
            found = param.type_descriptor
            param._runtime_param = _PlainParam(found.parameter_info, found.annotation, found)


def _nothing() -> None:
    """Do nothing."""
