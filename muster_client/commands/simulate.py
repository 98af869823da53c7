"""The command that compares policies on a trace; it talks to no server.

The options are those of `python -m scheduler.sim`, whose parts do the work. The simulator needs numpy, which most who
install the client never do, so it is imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from muster_client.errors import SimulationError, UsageError
from muster_client.session import begin

_STDOUT = "-"
_NAME = "NAME[:K=V,…]"

OptionalText = str | None


class _Command(TyperCommand):
    """Lets `--json` stand alone, as with every other command, or name a file: `--json OUT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        for word, following in zip(args, [*args[1:], None], strict=True):
            words.append(word)
            # There are no positional arguments, so that a word after it can only be its file.
            if word == "--json" and (following is None or (following.startswith("-") and following != _STDOUT)):
                words.append(_STDOUT)
        return list(super().parse_args(ctx, words))


def simulate_command(
    ctx: typer.Context,
    *,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="The jobs, plain or gzipped.")] = None,
    format_: Annotated[
        OptionalText, typer.Option("--format", metavar="NAME", help="The format of the trace, if it cannot be told.")
    ] = None,
    generate: Annotated[
        OptionalText, typer.Option(metavar=_NAME, help="Jobs drawn from the seed, instead of a trace.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar=_NAME, help="A policy to compare; may be repeated.")
    ] = None,
    cluster: Annotated[
        OptionalText,
        typer.Option(metavar="TYPE:NODESxGPUS,…|FILE", help="The GPUs, as V100:2x4,P100:4x4 or a YAML file."),
    ] = None,
    placement: Annotated[
        OptionalText, typer.Option(metavar=_NAME, help="Which GPUs a job gets; consolidate by default.")
    ] = None,
    admission: Annotated[str, typer.Option(metavar=_NAME, help="How quotas limit virtual clusters.")] = "quota",
    start: Annotated[float, typer.Option(metavar="S", help="Only jobs from this long after the first on.")] = 0.0,
    end: Annotated[float, typer.Option(metavar="S", help="Only jobs before this.", show_default=False)] = float("inf"),
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only the first N jobs.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count unusable lines and jobs.")] = False,
    throughputs: Annotated[
        Path | None, typer.Option(metavar="FILE|FOLDER", help="Measured speeds, for traces that count steps.")
    ] = None,
    read: Annotated[OptionalText, typer.Option(metavar="K=V,…", help="Other options of the format.")] = None,
    peer: Annotated[
        bool | None,
        typer.Option(
            "--peer/--no-peer",
            help="The assumptions of the trace authors' simulator, where no option differs; set by --format.",
        ),
    ] = None,
    round_s: Annotated[
        float | None,
        typer.Option("--round", metavar="S", help="Decide only at multiples of this; 0: at every event."),
    ] = None,
    first_round: Annotated[float | None, typer.Option(metavar="S", help="No decision before this.")] = None,
    restart: Annotated[float | None, typer.Option(metavar="S", help="Time without progress after each start.")] = None,
    first_start: Annotated[
        float | None, typer.Option(metavar="S", help="The same for the first start of a job.")
    ] = None,
    grace: Annotated[float, typer.Option(metavar="S", help="The grace period of preempted jobs.")] = 0.0,
    interference: Annotated[float, typer.Option(metavar="X", help="Speed lost to neighbours on a node, 0 to 1.")] = 0.0,
    spread_penalty: Annotated[float, typer.Option(metavar="X", help="Speed lost on several nodes, 0 to 1.")] = 0.0,
    rack_penalty: Annotated[
        float, typer.Option(metavar="X", help="Additional speed lost in several racks, 0 to 1.")
    ] = 0.0,
    share: Annotated[bool, typer.Option("--share", help="Let jobs share GPUs, if the policy supports it.")] = False,
    one_node: Annotated[bool, typer.Option("--one-node", help="Jobs that fit on one node run on one node.")] = False,
    opportunistic: Annotated[
        bool, typer.Option("--opportunistic", help="Jobs beyond their quota wait as opportunistic ones.")
    ] = False,
    rate_noise: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="How wrong the rates are that policies are told: the standard deviation of their logarithm.",
        ),
    ] = 0.0,
    oracle: Annotated[
        str, typer.Option(metavar="NAME", help="What policies know about run times: perfect, estimates or none.")
    ] = "perfect",
    failures: Annotated[
        str, typer.Option(metavar="NAME", help="Who fails: none, trace, philly, philly_paper or philly_times.")
    ] = "none",
    retries: Annotated[int, typer.Option(metavar="N", help="How often a failed job is retried.")] = 1,
    retry_hopeless: Annotated[bool, typer.Option(help="Whether jobs are retried whose every attempt fails.")] = True,
    retry_after: Annotated[float, typer.Option(metavar="S", help="Time from a failure to the queue.")] = 0.0,
    screening: Annotated[
        OptionalText,
        typer.Option(metavar="K=V,…", help="Screen gangs on a pool of gpus=N; docs/simulator.md has the other keys."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same figures.")] = 0,
    json_: Annotated[
        OptionalText,
        typer.Option("--json", metavar="[OUT]", help="All figures as JSON; without OUT instead of the table."),
    ] = None,
    csv: Annotated[OptionalText, typer.Option(metavar="OUT", help="CSV with a line for each run.")] = None,
    jobs_csv: Annotated[OptionalText, typer.Option(metavar="OUT", help="CSV with a line for each job.")] = None,
    plots: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Plots as PNG files; needs matplotlib.")] = None,
    no_timing: Annotated[
        bool, typer.Option("--no-timing", help="Leave out wall time and memory, which differ from run to run.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List policies, placements, admissions, generators and formats.")
    ] = False,
) -> None:
    """Compare policies on a trace, without a server."""
    session = begin(ctx, as_json=json_ == _STDOUT)
    output = session.output
    try:
        from scheduler.sim import arguments, command, engine, report  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise UsageError(f"muster simulate needs {error.name}: pip install numpy scipy matplotlib") from None
    if list_:
        catalogue = arguments.catalogue()
        lines = [f"{kind}: {name}: {told}" for kind, names in catalogue.items() for name, told in names.items()]
        output.answer(catalogue, *lines)
        return
    outputs = command.Outputs(json=json_, csv=csv, jobs_csv=jobs_csv, plots=plots, timing=not no_timing)
    try:
        outputs.check()
        study = arguments.prepare(
            arguments.Arguments(
                trace=trace,
                generate=generate,
                format=format_,
                policies=policy or (),
                cluster=cluster,
                placement=placement,
                admission=admission,
                peer=peer,
                round_s=round_s,
                first_round_s=first_round,
                restart_s=restart,
                first_start_s=first_start,
                grace_s=grace,
                interference=interference,
                spread_penalty=spread_penalty,
                rack_penalty=rack_penalty,
                share=share,
                one_node=one_node,
                opportunistic=opportunistic,
                rate_noise=rate_noise,
                oracle=oracle,
                failures=failures,
                retries=retries,
                retry_hopeless=retry_hopeless,
                retry_after_s=retry_after,
                screening=screening,
                throughputs=throughputs,
                read=read,
                start_s=start,
                end_s=end,
                limit=limit,
                skip_bad=skip_bad,
                seed=seed,
            )
        )
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


def register(app: typer.Typer) -> None:
    """Add this command to `muster`."""
    app.command("simulate", cls=_Command)(simulate_command)
