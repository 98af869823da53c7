"""Run times learned in simulated time: from the runs that have ended by then, and from nothing else.

Where the trace has owners: by trees, once there are enough runs, else by rules (`scheduler.predict.runtimes`). Where it
has none: by neighbours of the same virtual cluster. No run is learned from twice in one fit, and fits grow apart with
the history, so that all of them together cost about as much as a few of the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from scheduler.model import Job
from scheduler.predict.history import stem_of
from scheduler.predict.neighbours import Neighbours
from scheduler.predict.runtimes import EndedRun, History, RunTime, RunTimeJob, RunTimeModel, Source, by_rules, train
from scheduler.sim.trace import Trace, TraceJob

FIRST_FIT = 200  # ended runs
GROWTH = 1.5  # of the history from one fit to the next
MAX_ANEW = 20  # waiting jobs that are predicted anew after one end
_UNSURE = frozenset({Source.LIMIT, Source.USER})


def has_owners(trace: Trace) -> bool:
    """True if the trace tells the jobs of one owner from those of another."""
    return len({job.owner for job in trace.jobs}) > 1


class Learned:
    """The run times of a trace's jobs, as far as the ends so far tell them."""

    def __init__(self, *, owners: bool) -> None:
        self._owners = owners
        self._run_times: dict[int, RunTime] = {}
        self._waiting: defaultdict[Hashable, dict[int, TraceJob]] = defaultdict(dict)  # those that an end may tell of
        self._neighbours = Neighbours()
        self._history = History()
        self._runs: list[EndedRun] = []
        self._model: RunTimeModel | None = None
        self._fit_at = FIRST_FIT

    def of(self, job: Job) -> RunTime | None:
        """The run time as it was last predicted, or as a pool's snapshot has it; None: nothing is known."""
        found = self._run_times.get(job.id)
        if found is None and job.expected_s is not None:
            low_s, high_s = job.expected_p10_s, job.expected_p90_s
            found = self._run_times[job.id] = RunTime(
                job.expected_s if low_s is None else min(low_s, job.expected_s),
                job.expected_s,
                job.expected_s if high_s is None else max(high_s, job.expected_s),
                Source.HISTORY,
            )
        return found

    def submitted(self, job: TraceJob) -> RunTime | None:
        """The run time of a job that is submitted now."""
        self._predict(self._group(job), [job])
        found = self._run_times.get(job.id)
        if not self._owners or found is None or found.source in _UNSURE:
            self._waiting[self._group(job)][job.id] = job
        return found

    def ended(self, job: TraceJob, took_s: float, now: float, waiting: Mapping[int, Job]) -> Iterator[int]:
        """Learn from an ended job; yields the ids of `waiting` jobs that are predicted anew."""
        group = self._group(job)
        first = self._add(group, job, took_s, now)
        those = self._waiting[group]
        for gone in [job_id for job_id in those if job_id not in waiting]:
            del those[gone]
        nearest = sorted(those.values(), key=lambda other: (abs(other.submitted_s - job.submitted_s), other.id))
        anew = nearest if first else nearest[:MAX_ANEW]
        if anew:
            self._predict(group, anew)
        for other in anew:
            if self._owners and self._run_times[other.id].source not in _UNSURE:
                del those[other.id]
            yield other.id

    def _add(self, group: Hashable, job: TraceJob, took_s: float, now: float) -> bool:
        """Learn from an ended job; returns whether it is the first of its group."""
        if not self._owners:
            first = not self._neighbours.knows(group)
            self._neighbours.add(group, _kind(job), job.submitted_s, took_s)
            return first
        run = EndedRun(_told(job), now, took_s)
        self._history.add(run)
        self._runs.append(run)
        if len(self._runs) >= self._fit_at:
            self._model = train(self._runs, now=now)
            self._fit_at = int(GROWTH * len(self._runs))
        return False

    def _predict(self, group: Hashable, jobs: Sequence[TraceJob]) -> None:
        found: Sequence[RunTime | None] | None
        if not self._owners:
            found = self._neighbours.predict(group, [(_kind(job), job.submitted_s, job.time_limit_s) for job in jobs])
        elif self._model is not None:
            found = self._model.predict_many([_told(job) for job in jobs], self._history)
        else:
            found = None
        found = found or [by_rules(_told(job), self._history) for job in jobs]
        self._run_times.update((job.id, one) for job, one in zip(jobs, found, strict=True) if one is not None)

    def _group(self, job: TraceJob) -> Hashable:
        return (job.vc, job.owner) if self._owners else job.vc


def _kind(job: TraceJob) -> Hashable:
    return (stem_of(job.name), job.gpu_type, job.gpus, job.nodes)


def _told(job: TraceJob) -> RunTimeJob:
    """The facts that the scheduler knows at submission."""
    return RunTimeJob(
        owner=job.owner,
        submitted_at=job.submitted_s,
        name=job.name,
        vc=job.vc,
        gpus=job.gpus,
        nodes=job.nodes,
        gpu_type=job.gpu_type or "",
        limit_s=job.time_limit_s,
        user_s=job.expected_s,
    )
