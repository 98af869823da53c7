"""The command that tells what predictions would have been worth on past jobs; it talks to no server.

It needs numpy and LightGBM, which most who install the client never do, so they are imported when the command runs.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag
from muster_client.errors import UsageError
from muster_client.session import begin

_DAY_S = 86_400.0

TraceFile = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Past jobs in any format of `muster simulate`.")
]
SacctFile = Annotated[
    Path | None, typer.Option("--sacct", metavar="FILE", help="Past jobs as Slurm's `sacct --parsable2` prints them.")
]


def predict_command(
    ctx: typer.Context,
    *,
    split: Annotated[
        datetime,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            metavar="DATE",
            help="Learn from jobs that ended before it; score later ones.",
        ),
    ],
    sacct: SacctFile = None,
    trace: TraceFile = None,
    trace_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="The trace's format.", show_default="by its lines")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip lines that cannot be used.")] = False,
    refit_days: Annotated[
        float,
        typer.Option("--refit", metavar="DAYS", min=0.01, help="Days from one training to the next; inf: train once."),
    ] = 1.0,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="The threads of the training.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Tell what predictions of past jobs are worth, without a server."""
    session = begin(ctx, as_json=as_json)
    if (sacct is None) == (trace is None):
        raise UsageError("Name a file by --sacct or by --trace.")
    if sacct is not None and trace_format is not None:
        raise UsageError("--format is for --trace; --sacct has its own.")
    try:
        from scheduler.predict.storage import ModelError  # noqa: PLC0415 - see above
        from scheduler.sim import predictions  # noqa: PLC0415
        from scheduler.sim.readers import read_trace  # noqa: PLC0415
        from scheduler.sim.trace import TraceError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"muster predict needs {error.name}: pip install numpy scipy lightgbm") from None
    try:
        jobs = read_trace(sacct or trace or Path(), "sacct" if sacct else trace_format, skip_bad=skip_bad)
        told = predictions.document(
            jobs, predictions.split_at(jobs, split), refit_s=refit_days * _DAY_S, threads=threads
        )
    except (TraceError, ModelError) as error:
        raise UsageError(str(error)) from None
    session.output.answer(told, *(grid.rich() for grid in predictions.grids(told)))
