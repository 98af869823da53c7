"""The command that compares policies on a trace; it talks to no server.

It passes its words on to the simulator, which has the options. The simulator needs numpy, which most who install the
client never do, so it is imported when the command runs.
"""

from __future__ import annotations

import typer

from muster_client.errors import SimulationError, UsageError
from muster_client.session import begin

CONTEXT_SETTINGS = {"simulate": {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}}


def simulate_command(ctx: typer.Context) -> None:
    """Compare policies on a trace, without a server."""
    begin(ctx, as_json=False)
    try:
        from scheduler.sim import arguments, command, engine, parser, report  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise UsageError(f"muster simulate needs {error.name}: pip install numpy scipy matplotlib") from None
    try:
        given = parser.parse(ctx.args, prog=ctx.command_path)
        outputs = given.outputs
        output = begin(ctx, as_json=outputs.json == command.STDOUT).output
        if given.lists:
            catalogue = arguments.catalogue()
            lines = [f"{kind}: {name}: {told}" for kind, names in catalogue.items() for name, told in names.items()]
            output.answer(catalogue, *lines)
            return
        outputs.check()
        study = arguments.prepare(given.arguments)
        for note in study.notes:
            output.note(note)
        shown = output.errors if output.errors.is_terminal and not output.as_json else None
        with command.progress_bar(shown, study) as report_progress:
            rows = command.run_study(study, outputs, report_progress)
    except arguments.UsageError as error:
        raise UsageError(str(error)) from error
    except engine.SimulationError as error:
        raise SimulationError(f"the simulator caught itself in a mistake: {error}") from error
    if not outputs.answers:
        output.answer(None, *(grid.rich() for grid in report.grids(rows, timing=outputs.timing)))
    for remark in command.remarks(rows):
        output.note(remark)
