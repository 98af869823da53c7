"""The forecast of a job, and the reason why it waits."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.jobs import DryRunSize, Failure, GpuChoice, Hold, RunTimeEstimate
from muster_client.answers.terms import JobRuntime, JobSpec, JobState, Moment, OptionFate, OptionSource, Values


class Outlook(TypedDict):
    """The decision whether a job would first be screened on a few GPUs."""

    tried: Annotated[bool, "Whether the job would be screened."]
    why: Annotated[str, "The pool, GPUs and time of the screening run, or why there is none."]
    starts_now: Annotated[bool | None, "Whether the screening run would start now; null if the job is not screened."]
    hold: Annotated[Hold | None, "Why the screening run would wait."]


class RuntimeOutlook(TypedDict):
    """The runtime in which the job would run."""

    runtime: Annotated[JobRuntime, "The runtime; `either`: the node's choice, for a job that names no image."]
    why: Annotated[str, "The reason, as the end of a sentence."]
    nodes: Annotated[int, "Nodes of the pool that offer this runtime, of those in `of`."]
    of: Annotated[int, "Nodes of the pool whose runtimes are known."]


class WaitForecast(TypedDict):
    """The forecast of a wait, which ends when the job itself starts and begins when it may start."""

    quick: Annotated[float, "The probability of a wait of at most ten minutes, 0 to 1."]
    p10_s: Annotated[float, "The wait that one job in ten stays below, s."]
    p50_s: Annotated[float, "The median wait, s."]
    p90_s: Annotated[float, "The wait that nine jobs in ten stay below, s."]
    source: Annotated[
        Literal["model", "forward", "combined"],
        "`model`: learned from waits of the pool; `forward`: its policy run forward from now; `combined`: both.",
    ]
    says: Annotated[str, "The forecast in words."]


class DryRun(TypedDict):
    """The forecast of a job if it was submitted now."""

    valid: Annotated[bool, "True: the spec is valid (an invalid spec is answered with a problem)."]
    spec: Annotated[JobSpec, "The spec with every default written out."]
    gpu_choices: Annotated[
        list[GpuChoice], "The GPU types that the job accepts, each with a size, in order of preference."
    ]
    notes: Annotated[list[str], "Warnings as sentences, such as that the job asks for no GPU, or names no outputs."]
    sizes: Annotated[list[DryRunSize], "GPUs, CPUs and memory on each node, in order of preference."]
    gpus_total: Annotated[int, "GPUs on all nodes together, by the first choice."]
    feasible: Annotated[bool, "The pool could run it if it was empty."]
    fits_quota: Annotated[bool, "Whether the job fits the quota of its virtual cluster."]
    starts_now: Annotated[bool, "Whether the next scheduling cycle would place it."]
    hold: Annotated[Hold | None, "Why it would wait; null if it would start."]
    position: Annotated[int | None, "Its place in the virtual cluster's queue, from 1; null if it would start."]
    screening: Annotated[Outlook, "Whether it would first be screened on a screening pool."]
    runtime: Annotated[RuntimeOutlook, "Whether it would run in a container or as a process."]
    wait: Annotated[WaitForecast | None, "The wait of the job itself, after its screening; null: not known."]
    wait_unknown: Annotated[str, "Why the wait is not known; empty if it is."]


class HeldJob(TypedDict):
    """A running job and its GPUs."""

    id: Annotated[int, "The job's number."]
    name: Annotated[str, "The job's name."]
    gpus: Annotated[int, "GPUs that it holds of the type that the waiting job needs."]


class QuotaHolder(TypedDict):
    """A user who has GPUs of a quota."""

    owner: Annotated[str, "The user's name."]
    gpus: Annotated[int, "GPUs of the type that the job waits for."]
    jobs_total: Annotated[int, "The number of jobs that have these GPUs."]
    jobs: Annotated[list[HeldJob], "The largest of these jobs."]


class Why(TypedDict):
    """The reason for a job's state."""

    state: Annotated[JobState, "The state that is explained."]
    reason: Annotated[str | None, "The reason by its short name; null if there is none."]
    detail: Annotated[str, "The reason as a sentence, with the number of jobs ahead in the queue."]
    evidence: Annotated[Values, "The figures behind the reason; the keys depend on it."]
    helps: Annotated[list[str], "Changes that would help, as sentences."]
    failure: Annotated[Failure | None, "The diagnosis of a failed job; null if it has not failed."]
    position: Annotated[int | None, "Its place in the virtual cluster's queue, from 1; null if it is not queued."]
    ahead: Annotated[int | None, "Jobs before it in the queue of its virtual cluster."]
    holders: Annotated[list[QuotaHolder], "The users with most GPUs of the quota that the job waits for."]
    estimate: Annotated[RunTimeEstimate | None, "The expected run time; null: unknown."]
    wait: Annotated[WaitForecast | None, "The whole wait as it is expected now; null: not known, or not waiting."]
    wait_unknown: Annotated[str, "Why the wait is not known; empty if it is, or if the job does not wait."]
    cycle: Annotated[int | None, "The number of the pool's latest scheduling cycle; null before the first one."]
    at: Annotated[Moment | None, "When that cycle began; null before the first one."]


class When(TypedDict):
    """The start of a job: the forecasts of it, and the wait once it is over."""

    wait: Annotated[WaitForecast | None, "The whole wait as it is expected now; null: not known, or not waiting."]
    wait_unknown: Annotated[str, "Why the wait is not known; empty if it is, or if the job does not wait."]
    submitted: Annotated[WaitForecast | None, "The forecast as of the submission; null: there was none."]
    eligible_at: Annotated[Moment | None, "From when on the wait counts; null: the job may not start yet."]
    starts_p50_at: Annotated[
        Moment | None, "The start by the median of `wait`; null without one or before `eligible_at`."
    ]
    starts_p90_at: Annotated[Moment | None, "The start by the p90 of `wait`; null without one or before `eligible_at`."]
    started_at: Annotated[Moment | None, "When the job itself first got its GPUs; null: not yet."]
    waited_s: Annotated[float | None, "The wait until the start, or until now, s; null: the job may not start yet."]


class WaitPinball(TypedDict):
    """Mean pinball losses of the 10 %, 50 % and 90 % quantiles, of ln(1 + minutes); null: none."""

    model: Annotated[float | None, "Of the learned model."]
    forward: Annotated[float | None, "Of the policy run forward."]
    combined: Annotated[float | None, "Of both together, which is shown."]


class WaitFigures(TypedDict):
    """Forecasts held against the waits; figures that no job gives are null."""

    jobs: Annotated[int, "Jobs with a forecast whose wait is judged."]
    quick_expected: Annotated[float | None, "Mean probability of a wait of at most ten minutes."]
    quick_real: Annotated[float | None, "Part of the jobs that waited at most ten minutes."]
    balanced_accuracy: Annotated[float | None, "Of `quick` from 0.6 on against the waits; null: all were alike."]
    p90_coverage: Annotated[float | None, "Part of the jobs that waited no longer than their p90; 0.9 is right."]
    two_sided_coverage: Annotated[
        float | None,
        "Part of the waits from p10 to p90, of jobs expected to wait longer than ten minutes; 0.8 is right.",
    ]
    pinball: Annotated[WaitPinball, "Losses of each forecast, of the jobs that have started."]


class WaitWeek(WaitFigures):
    """Forecasts of a week held against the waits, by the moment from which on a job could start."""

    begins: Annotated[str, "The Monday, UTC."]


class WaitReliability(TypedDict):
    """Jobs whose probability of a quick start was about the same."""

    begins: Annotated[float, "The least probability."]
    ends: Annotated[float, "The greatest probability."]
    expected: Annotated[float, "Mean probability."]
    real: Annotated[float, "Part of them that waited at most ten minutes."]
    jobs: Annotated[int, "The number of these jobs."]


class WaitMiss(TypedDict):
    """A job that waited longer than its p90."""

    id: Annotated[int, "The job's number."]
    name: Annotated[str, "The job's name."]
    expected_p90_s: Annotated[float, "The p90 that was shown at its submission, s."]
    waited_s: Annotated[float, "Its wait, s; of a job that waits, until now."]
    submitted_at: Annotated[Moment, "When it was submitted."]


class WaitDrift(TypedDict):
    """A test whether recent forecasts hold what they promise."""

    alarm: Annotated[bool, "Whether recent waits contradict the forecasts."]
    says: Annotated[str, "The figures of the test as a sentence."]


class WaitCalibration(TypedDict):
    """Forecasts of waits in a pool, held against the waits."""

    pool: Annotated[str, "The pool's name."]
    unknown: Annotated[str, "Why there are no figures; empty if there are some."]
    weeks: Annotated[list[WaitWeek], "By week, the oldest first."]
    total: Annotated[WaitFigures | None, "Of these weeks together; null without figures."]
    reliability: Annotated[list[WaitReliability], "By tenths of the probability of a quick start."]
    worst: Annotated[list[WaitMiss], "The worst misses among the jobs that you may see."]
    drift: Annotated[WaitDrift, "Whether recent waits contradict the forecasts."]
    trained_at: Annotated[Moment | None, "When the model in use was trained; null: there is none."]
    rows: Annotated[int, "Waits from which it was trained; 0 without a model."]


class RunTimeWeek(TypedDict):
    """Expected run times of the jobs that ended in a week."""

    begins: Annotated[str, "The Monday, UTC."]
    jobs: Annotated[int, "Jobs whose expected run time came from a model or from similar jobs."]
    coverage80: Annotated[float, "Part of the run times from p10 to p90; 0.8 is right."]
    median_ratio: Annotated[float, "The median of run times over their p50; 1 is right."]
    pinball: Annotated[float, "Mean pinball loss of p10, p50 and p90, of ln(seconds)."]


class OwnersEstimates(TypedDict):
    """Run times of an owner's jobs, held against `expected` of their specs."""

    owner: Annotated[str, "The user."]
    jobs: Annotated[int, "Jobs with an `expected` that have ended."]
    median_ratio: Annotated[float, "The median of run times over the expected ones; 1 is right."]
    within_2x: Annotated[float, "Part of the run times from half to twice the expected one."]


class RunTimeScores(TypedDict):
    """Scores of a model of run times on the newest runs, which it had not seen; null: too few of them."""

    jobs: Annotated[int, "The number of these runs."]
    pinball_model: Annotated[float | None, "Mean pinball loss of p10, p50 and p90, of ln(seconds)."]
    pinball_last_two: Annotated[float | None, "The same of the mean of the owner's last two runs, for each quantile."]
    coverage80: Annotated[float | None, "Part of the run times from p10 to p90."]
    spearman: Annotated[float | None, "Spearman's rank correlation of run times with their p50."]


class RunTimeModel(TypedDict):
    """The model of run times in use."""

    version: Annotated[int, "Counts the models, from 1."]
    trained_at: Annotated[Moment, "When it was trained."]
    rows: Annotated[int, "Runs from which it was trained."]
    scores: Annotated[RunTimeScores, "Its scores."]


class RunTimeRecord(TypedDict):
    """Expected run times held against the run times of jobs that have ended."""

    unknown: Annotated[str, "Why there are no weeks; empty if there are some."]
    weeks: Annotated[list[RunTimeWeek], "By week, the oldest first, of the jobs that you may see."]
    estimates: Annotated[
        list[OwnersEstimates], "By owner: yourself, and the members of tenants that you manage; most jobs first."
    ]
    model: Annotated[RunTimeModel | None, "The model in use; null: there is none yet."]


class ScriptOption(TypedDict):
    """The treatment of an option of a script."""

    source: Annotated[OptionSource, "Where it was given."]
    line: Annotated[int | None, "Its line in the script; null elsewhere."]
    text: Annotated[str, "The option as it was written."]
    fate: Annotated[OptionFate, "`ignored`: for the reason that `says` has."]
    says: Annotated[str, "The keys of the spec that it became, or why it is ignored."]


class TranslatedScript(TypedDict):
    """The spec that a script asks for."""

    spec: Annotated[JobSpec, "The spec, which can be submitted."]
    report: Annotated[list[ScriptOption], "Every option, by line in the script, then environment and command line."]
    notes: Annotated[list[str], "What to know of it before it runs, as sentences."]
    folder: Annotated[str | None, "The folder of the submission, if nodes have it too; null if its files must be sent."]


class SubmittedScript(TypedDict):
    """The answer of sbatch, and the number of the job or the array that was submitted."""

    stdout: Annotated[str, "The standard output of the command."]
    stderr: Annotated[str, "The error output of the command."]
    exit_code: Annotated[int, "0, or why it failed."]
    job: Annotated[int | None, "The number of the job; null if none was submitted, or an array."]
    array: Annotated[int | None, "The number of the array; null if none was submitted."]
    wait: Annotated[bool, "Whether the command waits for its end: `--wait` is among the options of the script too."]


class SlurmAnswer(TypedDict):
    """The output of a command of Slurm."""

    stdout: Annotated[str, "The text for standard output."]
    stderr: Annotated[str, "The text for standard error."]
    exit_code: Annotated[int, "The exit code; 0: all went well."]


class SlurmWords(TypedDict):
    """The operators' table, which gives the words of scripts their meaning."""

    version: Annotated[int, "The number of the version; 0: nothing is stored yet."]
    table: Annotated[Values, "The keys `cluster_name`, `partitions`, `accounts`, `qos` and `shared_folders`."]
    changed_by: Annotated[str | None, "The operator who stored this version."]
    changed_at: Annotated[Moment | None, "When it was stored."]
