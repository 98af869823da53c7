"""The `muster` command."""

from __future__ import annotations

import gc

# What an import makes stays: to look for garbage among it takes a tenth of the time.
gc.disable()

from typing import Annotated, Any  # noqa: E402

import typer  # noqa: E402

from muster_client.commands.group import Group, LazyCommands  # noqa: E402
from muster_client.errors import EXIT_INTERRUPTED, MusterError  # noqa: E402
from muster_client.session import Session  # noqa: E402

gc.enable()

# Each module of `muster_client.commands` with its commands, in the order of the help.
MODULES = {
    "account": ("login", "logout", "whoami", "tokens"),
    "submit": ("submit", "run", "dry-run"),
    "jobgroups": ("array", "sweep"),
    "jobs": ("ls", "show", "why", "logs", "cancel", "requeue", "wait"),
    "predictions.when": ("when",),
    "specs": ("clone", "spec"),
    "queue": ("queue", "hold", "release", "bump"),
    "slurm.sbatch": ("sbatch",),
    "slurm.words": ("squeue", "scancel", "sinfo", "sacct", "scontrol"),
    "slurm.srun": ("srun",),
    "shell": ("shell",),
    "files": ("files", "download"),
    "nodes": ("nodes",),
    "cluster": ("gpus", "vc", "volumes"),
    "top": ("top",),
    "registry": ("registry",),
    "webhook": ("webhook",),
    "maintenance": ("maintenance",),
    "usage": ("usage",),
    "simulate": ("simulate",),
    "predictions.predict": ("predict",),
    "explain": ("explain",),
}


class _Group(Group):
    """Turns an error of ours into its message and exit status, in one place for every command."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.commands: Any = LazyCommands(MODULES)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MusterError as error:
            ctx.find_object(Session).output.error(error)
            raise typer.Exit(error.exit_status) from error
        except typer.Abort as error:
            # Ctrl-C, or the end of the input, at a prompt.
            ctx.find_object(Session).output.warn(
                "nothing was entered; scripts use --yes, --password-stdin or --token-stdin."
            )
            raise typer.Exit(EXIT_INTERRUPTED) from error


app = typer.Typer(
    cls=_Group,
    name="muster",
    help="Run jobs on a GPU cluster.",
    no_args_is_help=True,
    # A traceback with the values of variables would print tokens.
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None,
        typer.Option("--url", help="The server, instead of MUSTER_URL or the stored one.", show_default=False),
    ] = None,
) -> None:
    """Run jobs on a GPU cluster."""
    session = ctx.ensure_object(Session)
    session.url = url


def main() -> None:
    """Run the command line."""
    gc.freeze()
    app()
