"""The workloads of Pollux's evaluation: an application per job, with the GPUs and the batch size it was tuned to.

Source: Qiao et al., OSDI 2021, §5.1 and its artifact. A job's length follows from its application's measurements, by
default in a folder `traces` beside the workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sys import intern

from scheduler.sim.applications import ApplicationError, PolluxWork, load_applications
from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Source, Unusable, amount, gpu_count, has_columns
from scheduler.sim.trace import Trace, TraceError, TraceJob

_COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")

FORMAT = Format(
    name="pollux",
    sentence="Pollux's workloads: submission, application, GPUs and batch size, one line a job; needs measurements.",
    files=("workload-*.csv",),
    sniff=has_columns(*_COLUMNS),
    peer=Peer(
        source="Pollux's simulator (its artifact at OSDI 2021)",
        cluster="T4:16x4",
        round_s=60.0,
        first_round_s=60.0,
        restart_s=30.0,
        placement="spread",
        policies={"tiresias": {"limits_gpu_s": (57_600.0,), "promote_knob": 0.0}, "optimus": {}, "pollux": {}},
        whole_ends=True,
        works={"whole_seconds": True},
    ),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file; a job's size is limited by one smallest measured share of its batch per GPU."""
    source = Source(path, options)
    try:
        applications = load_applications(options.applications or path.parent.parent / "traces")
    except ApplicationError as error:
        raise TraceError(f"{path.name}, line 1: {error}") from None
    # Jobs with equal values share a work, which only caches what it computes.
    works: dict[tuple[str, int, int], PolluxWork] = {}

    def draft(row: Sequence[str]) -> TraceJob:
        name, submitted, application, gpus, batch = row
        if application not in applications:
            raise Unusable(f"no measurements of application {application!r}; there is {', '.join(applications)}")
        key = (application, gpu_count(batch, "batch_size"), gpu_count(gpus, "num_replicas"))
        if key not in works:
            works[key] = PolluxWork(applications[application], key[1], key[2], options.whole_seconds)
        if applications[application].iteration(key[1], key[2]) is None:
            raise Unusable(f"a batch of {batch} samples cannot be cut for {gpus} GPUs")
        return TraceJob(
            id=0,
            name=name,
            submitted_s=amount(submitted, "time"),
            gpus=key[2],
            work=works[key],
            max_gpus=max(key[2], len(works[key].speeds())),
            model=intern(application),
        )

    source.add_each(source.table(_COLUMNS), draft)
    return source.trace()
