"""The `muster` command."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from muster_client.commands import (
    account,
    cluster,
    explain,
    files,
    jobs,
    maintenance,
    nodes,
    queue,
    registry,
    shell,
    simulate,
    submit,
    sweep,
    top,
    usage,
    webhook,
)
from muster_client.errors import EXIT_INTERRUPTED, MusterError
from muster_client.session import Session


class _Group(TyperGroup):
    """Turns an error of ours into its message and exit status, in one place for every command."""

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


for module in (
    account,
    registry,
    webhook,
    submit,
    sweep,
    jobs,
    queue,
    shell,
    files,
    nodes,
    cluster,
    top,
    maintenance,
    usage,
    simulate,
    explain,
):
    module.register(app)


def main() -> None:
    """Run the command line."""
    app()
