"""Submits the examples as their users do, through the REST API, and watches them to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from muster.local.children import ROOT
from muster.local.demo.cluster import MIXED
from muster.local.demo.people import Access
from muster_client.answers.jobs import Job
from muster_client.answers.terms import FINISHED
from muster_client.calls.logs import LogText
from muster_client.client import Client
from muster_client.errors import MusterError
from muster_client.local.pack import pack_folder
from muster_client.local.spec import read_spec
from muster_client.local.terminal import EscapeFilter

_TURN_S = 0.2
_COLOURS = ("cyan", "magenta", "yellow")


@dataclass(frozen=True, slots=True)
class Example:
    """A job of examples/, who submits it, and how it should end."""

    folder: str
    owner: str
    expected: str
    changes: Mapping[str, object] = field(default_factory=dict)
    """Keys of the spec with other values."""

    @property
    def name(self) -> str:
        return str(self.changes.get("name", self.folder))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an example within the time."""

    example: Example
    job: Job

    @property
    def as_expected(self) -> bool:
        return self.job["state"] == self.example.expected


EXAMPLES = (
    Example("hello", "ada", "succeeded"),
    Example("gang", "grace", "succeeded"),
    Example("failing", "ada", "failed"),
)
CONTAINER_EXAMPLE = Example("container", "ada", "succeeded")
"""The example for nodes whose engine has the image of the demonstration."""
MIXED_EXAMPLES = tuple(
    Example(
        "two-speeds",
        "ada",
        "succeeded",
        {
            "name": f"{model}-{gpu_type.lower()}",
            "vc": MIXED,
            "gpus": f"{gpu_type}:1",
            "env": {"MODEL": model, "BATCH_SIZE": 64, "STEPS": steps},
        },
    )
    for model in ("big-net", "small-net")
    for gpu_type, steps in (("A100", 3000), ("V100", 2000))
)
"""Two models, each on two types: how much a model gains from the faster type is its own."""


def run_examples(
    url: str, people: Mapping[str, Access], examples: Sequence[Example], *, console: Console, timeout_s: float
) -> list[Outcome]:
    """The examples, submitted at once and followed side by side, with their output as it comes."""
    width = max(len(example.name) for example in examples)
    watchers = []
    for example, colour in zip(examples, cycle(_COLOURS), strict=False):
        token = people[example.owner].token
        job = submit(url, token, example)
        console.print(
            f"[green]✓[/] [bold]job {job['id']:<5}[/] {example.name}, submitted by {example.owner}", highlight=False
        )
        lines = _Lines(Text(f"{example.name:>{width}} │ ", style=colour), console)
        watchers.append(_Watcher(url, token, example=example, job=job, lines=lines))
    deadline = time.monotonic() + timeout_s
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("jobs that have ended", total=len(watchers))
        for watcher in watchers:
            watcher.start()
        while (alive := [watcher for watcher in watchers if watcher.is_alive()]) and time.monotonic() < deadline:
            progress.update(task, completed=len(watchers) - len(alive))
            alive[0].join(_TURN_S)
    return [watcher.outcome() for watcher in watchers]


def submit(url: str, token: str, example: Example) -> Job:
    """The stored job of an example, with its code folder uploaded first."""
    folder = ROOT / "examples" / example.folder
    spec = read_spec(folder / "job.yaml")
    with Client(url, token) as client, pack_folder(folder / str(spec["code"])) as archive:
        if not client.knows_upload(archive.sha256):
            client.upload(archive)
        return client.submit({**spec, **example.changes, "code": {"upload": archive.sha256}})


def summary(outcomes: list[Outcome]) -> Table:
    table = Table(title="The jobs", title_justify="left", title_style="bold")
    for name in ("job", "name", "owner", "GPUs", "ran", "exit", "state", "expected", ""):
        table.add_column(name, justify="right" if name in {"job", "GPUs", "ran", "exit"} else "left")
    for outcome in outcomes:
        job, example = outcome.job, outcome.example
        verdict = "[green]✓[/]" if outcome.as_expected else "[red]✗[/]"
        exit_code = "" if job["exit_code"] is None else str(job["exit_code"])
        cells = (str(job["id"]), job["name"], job["owner"], str(job["gpus_total"]), _ran(job), exit_code)
        table.add_row(*cells, job["state"], example.expected, verdict)
    return table


def explanations(outcomes: list[Outcome]) -> list[str]:
    """A sentence for each job that did not end as it should, from what the platform says of it."""
    told = []
    for outcome in outcomes:
        if not outcome.as_expected:
            job = outcome.job
            hold = job["hold"]
            why = hold["detail"] if hold else job["reason_detail"] or job["reason"] or "it did not end in time"
            told.append(f"job {job['id']} ({job['name']}) is {job['state']}: {why}")
    return told


class _Watcher(threading.Thread):
    """Prints what one job writes until it has ended; a daemon, so that a stream keeps no program from ending."""

    def __init__(self, url: str, token: str, *, example: Example, job: Job, lines: _Lines) -> None:
        super().__init__(name=f"watch {example.name}", daemon=True)
        self._url, self._token = url, token
        self._example, self._job, self._lines = example, job, lines
        self._error: MusterError | None = None

    def run(self) -> None:
        after = ""
        try:
            with Client(self._url, self._token) as client:
                while self._job["state"] not in FINISHED:
                    for event in client.follow_logs(self._job["id"], after=after):
                        after = event.id
                        if isinstance(event, LogText):
                            self._lines.feed(event.rank, event.text)
                    self._lines.finish()
                    self._job = client.job(self._job["id"])
                    if self._job["state"] not in FINISHED:
                        client.pause()
        except MusterError as error:
            self._error = error

    def outcome(self) -> Outcome:
        """The job as it is now; raises what kept the thread from following it."""
        if self._error is not None:
            raise self._error
        if not self.is_alive():
            return Outcome(self._example, self._job)
        with Client(self._url, self._token) as client:
            return Outcome(self._example, client.job(self._job["id"]))


class _Lines:
    """Whole lines from pieces of several ranks; what steers terminals is taken out."""

    def __init__(self, prefix: Text, console: Console) -> None:
        self._prefix, self._console = prefix, console
        self._filters: dict[int, EscapeFilter] = {}
        self._rest: dict[int, str] = {}

    def feed(self, rank: int, text: str) -> None:
        safe = self._filters.setdefault(rank, EscapeFilter(colour=False)).feed(text)
        *lines, self._rest[rank] = (self._rest.get(rank, "") + safe).split("\n")
        for line in lines:
            self._print(line)

    def finish(self) -> None:
        for rest in self._rest.values():
            if rest:
                self._print(rest)
        self._rest.clear()

    def _print(self, line: str) -> None:
        # A surrogate stands for a byte that is no UTF-8, which a terminal cannot show.
        shown = line.encode(errors="replace").decode()
        self._console.print(self._prefix + Text(shown), soft_wrap=True)


def _ran(job: Job) -> str:
    if not job["started_at"] or not job["ended_at"]:
        return ""
    seconds = (datetime.fromisoformat(job["ended_at"]) - datetime.fromisoformat(job["started_at"])).total_seconds()
    return f"{seconds:.1f} s"
