"""Turns the server's answers into tables and lines for people.

Names and messages come from other users, so every text is cleaned of control characters, and none is read as markup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from muster_client.local.terminal import clean
from muster_client.show.groups import group_state, group_texts, progress_text
from muster_client.show.marks import finish_texts, rate_text
from muster_client.show.request import gpus_text, request_rows
from muster_client.show.tables import make_table, sheet, state_text, text_of
from muster_client.show.times import (
    ago,
    duration,
    moment_text,
    parse_moment,
    run_time,
    took,
    utc_now,
    with_times_in_words,
)
from muster_client.show.waits import wait_rows

if TYPE_CHECKING:
    from muster_client.answers.fairness import JobFairness
    from muster_client.answers.fleet import Gpu, Maintenance, Node
    from muster_client.answers.forecast import DryRun, QuotaHolder, RuntimeOutlook, Why
    from muster_client.answers.jobs import (
        Attempt,
        Efficiency,
        FailedResize,
        Failure,
        GroupOfJob,
        GroupProgress,
        Hold,
        Idle,
        Job,
        JobInList,
        JobRate,
        Kept,
        RunTimeEstimate,
        ScreeningRun,
    )
    from muster_client.answers.service import Problem

_NAME_CHARS = 40


def problem_lines(problem: Problem) -> list[Text]:
    """Return a problem: its title and detail, then each field with its message."""
    status = f" ({problem['status']})" if problem["status"] else ""
    lines = [Text.assemble(("error: ", "bold red"), clean(problem["title"]) + status)]
    # The server's detail of a refused body is its fields in one line; they follow one by one.
    joined = "; ".join(f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in problem["errors"])
    if problem["detail"] not in {"", problem["title"], joined}:
        lines.append(Text("  " + clean(problem["detail"])))
    lines += [
        Text.assemble("  ", (clean(error["field"]) or "request", "bold"), ": ", clean(error["message"]))
        for error in problem["errors"]
    ]
    return lines


def jobs_table(jobs: Sequence[JobInList], now: datetime) -> RenderableType:
    """Return a table with one line per job, or per group where a job stands for its group."""
    if not jobs:
        return Text("No jobs.")
    table = make_table("ID", "NAME", "STATE", "VC", "OWNER", "GPUS", "PRIORITY", "SUBMITTED", "RUN TIME", "WHY")
    for job in jobs:
        group = job["group"]
        if group is not None and group["progress"] is not None:
            table.add_row(*_group_row(job, group, group["progress"], now))
            continue
        table.add_row(
            str(job["id"]),
            text_of(job["name"], _NAME_CHARS),
            _job_state(job),
            text_of(job["vc"]),
            text_of(job["owner"]),
            gpus_text(job["gpu_choices"], job["nodes"]),
            text_of(job["priority"]),
            ago(job["submitted_at"], now),
            run_time(job, now),
            text_of(_short_reason(job)),
        )
    return table


def _group_row(job: JobInList, group: GroupOfJob, progress: GroupProgress, now: datetime) -> list[RenderableType]:
    """Return the line of a group, whose values are those of the job but for what all members make up."""
    return [
        text_of(f"{group['kind']} {group['id']}"),
        text_of(group["name"], _NAME_CHARS),
        state_text(group_state(group["state"], progress["running"])),
        text_of(job["vc"]),
        text_of(job["owner"]),
        Text(f"{group['members']} × {gpus_text(job['gpu_choices'], job['nodes'])}"),
        text_of(job["priority"]),
        ago(job["submitted_at"], now),
        took(progress["started_at"], progress["ended_at"], now),
        text_of(progress_text(group, progress)),
    ]


def _moment(at: str, now: datetime) -> str:
    return f"{moment_text(at)} ({ago(at, now)})"


def job_sheet(job: Job, now: datetime, fairness: JobFairness | None = None) -> RenderableType:
    """Return everything about one job, but its spec's long parts."""
    failure = job["failure"]
    spec = job["spec"]
    rows: list[tuple[str, RenderableType]] = [
        ("Job", Text(f"{job['id']}  {clean(job['name'])}", style="bold")),
        ("State", _job_state(job)),
        ("Owner", text_of(f"{job['owner']} ({job['tenant']})")),
        ("Virtual cluster", text_of(job["vc"])),
        ("GPUs", text_of(f"{gpus_text(job['gpu_choices'], job['nodes'])} in all, priority {job['priority']}")),
        *request_rows(job["gpu_choices"], job["sizes"], spec),
        ("Submitted", Text(_moment(job["submitted_at"], now))),
    ]
    if job["started_at"]:
        rows.append(("Started", Text(_moment(job["started_at"], now))))
    if job["ended_at"]:
        rows.append(("Ended", Text(_moment(job["ended_at"], now))))
    if job["started_at"]:
        rows.append(("Run time", Text(run_time(job, now))))
    group = job["group"]
    kind = group["kind"].capitalize() if group else ""
    rows += [(kind, text_of(text)) for text in group_texts(group, job["params"])]
    rows += _estimate_rows(job["estimate"])
    if fairness is not None and fairness["taken_s"] is not None:
        rows.append(("Fairness", text_of(fairness["sentence"])))
    rows += _rate_rows(job["rates"])
    rows += [("By GPU type", text_of(text)) for text in finish_texts(job["finish"])]
    if job["exit_code"] is not None:
        rows.append(("Exit code", Text(str(job["exit_code"]))))
    if job["position"] is not None:
        rows.append(("Position", Text(str(job["position"]))))
    rows += _hold_rows(job["hold"])
    rows += _kept_rows(job["kept"], job["id"], now)
    rows += _idle_rows(job["idle"], now)
    rows += _resize_rows(job["failed_resize"], now)
    rows += _failure_rows(failure)
    if job["reason"]:
        told = _reason_text(job["reason"], job["reason_detail"])
        detail = f": {job['reason_detail']}" if job["reason_detail"] and job["reason_detail"] not in told else ""
        rows.append(("Reason", text_of(f"{told}{detail}")))
    rows += _efficiency_rows(job["efficiency"])
    line = (failure["line"] or "") if failure else ""
    rows += [("Screening", text_of(_run_words(run, told=line))) for run in job["screening_runs"]]
    if spec.get("command"):
        rows.append(("Command", text_of(spec["command"])))
    return sheet(rows)


def _failure_rows(failure: Failure | None) -> list[tuple[str, RenderableType]]:
    """Return why a job failed: the class in words, the line of its log that tells it, the hint, and the retries."""
    if not failure:
        return []
    last_words = failure["last_words"]
    told = [
        ("Failure", failure["title"]),
        ("Line", failure["line"]),
        ("Hint", failure["hint"]),
        ("Printed last", f"{last_words}  (nothing says that this is why it failed)" if last_words else None),
        ("Caused by", failure["category"].replace("_", " ")),
        ("Tried again", failure["retried"]),
    ]
    return [(name, text_of(value)) for name, value in told if value]


def _job_state(job: JobInList) -> Text:
    """Return the state, and whether the job is in screening or waits for it."""
    text = state_text(job["state"])
    if job["stage"] == "screening" and job["state"] != "cancelled":
        text.append(" in screening" if job["state"] != "queued" else " for screening")
    return text


_VERDICTS = {
    "passed": "passed",
    "failed": "failed by itself",
    "inconclusive": "inconclusive, so the job went on",
    "interrupted": "interrupted",
    "untried": "not screened",
    "trusted": "not screened: trusted",
}


def _run_words(run: ScreeningRun, *, told: str) -> str:
    """Return the result of a screening run in one line; the log line is left out if `told` has it."""
    verdict = _VERDICTS.get(run["verdict"], run["verdict"])
    if run["attempt"] is not None:
        gpus = f"{run['gpus']} of {run['gpus_asked']} GPUs"
        verdict = f"attempt {run['attempt']} on {gpus}, {run['ran_s']:.0f} s: {verdict}"
    if told and run["line"] == told:
        return f"{verdict}: {run['failure']}"
    said = [text for text in (run["failure"], run["line"] or run["detail"], run["hint"]) if text]
    return ": ".join([verdict, ", ".join(said)]) if said else verdict


def attempts_table(attempts: Sequence[Attempt], now: datetime) -> RenderableType:
    """Return a table with one line per rank of each attempt."""
    table = make_table("ATTEMPT", "STATE", "RANK", "NODE", "GPUS", "OBSERVED", "EXIT", "TOOK", "REASON")
    for attempt in attempts:
        for allocation in attempt["allocations"]:
            table.add_row(
                str(attempt["number"]),
                state_text(attempt["state"]),
                str(allocation["rank"]),
                text_of(allocation["node"]),
                str(len(allocation["gpus"])),
                text_of(allocation["observed"]),
                _or_dash(allocation["exit_code"]),
                took(attempt["started_at"], attempt["ended_at"], now),
                text_of(attempt["reason"] or ""),
            )
    return table


def why_sheet(why: Why) -> RenderableType:
    """Return why a job is where it is, with the numbers and what would help."""
    rows: list[tuple[str, RenderableType]] = [("State", state_text(why["state"]))]
    failure = why["failure"]
    rows += _failure_rows(failure)
    if why["reason"] and not failure:
        rows.append(("Reason", text_of(_reason_text(why["reason"], None))))
    if why["detail"] and not failure:
        rows.append(("", text_of(with_times_in_words(why["detail"], utc_now()))))
    if why["position"] is not None:
        rows.append(("Position", Text(str(why["position"]))))
    rows += wait_rows("Starts", why["wait"], why["wait_unknown"])
    rows += _estimate_rows(why["estimate"])
    rows += [(_words(key), text_of(_plain(value, utc_now()))) for key, value in why["evidence"].items()]
    rows += _holder_rows(why["holders"])
    rows += _helps_rows(why["helps"])
    return sheet(rows)


def _holder_rows(holders: Sequence[QuotaHolder]) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = []
    for index, holder in enumerate(holders):
        jobs = ", ".join(f"{job['id']} {job['name']} ({job['gpus']})" for job in holder["jobs"])
        more = holder["jobs_total"] - len(holder["jobs"])
        text = f"{holder['owner']}: {holder['gpus']}, by {jobs}{f' and {more} more' if more else ''}"
        rows.append(("" if index else "GPUs held by", text_of(text)))
    return rows


def dry_run_sheet(result: DryRun) -> RenderableType:
    """Return what a dry run found."""
    rows: list[tuple[str, RenderableType]] = [
        ("Valid", _yes(result["valid"])),
        ("Feasible", _yes(result["feasible"])),
        ("Fits the quota", _yes(result["fits_quota"])),
        ("Starts now", _yes(result["starts_now"])),
        ("GPUs", Text(gpus_text(result["gpu_choices"], result["spec"]["nodes"]))),
        *request_rows(result["gpu_choices"], result["sizes"], result["spec"]),
    ]
    if result["position"] is not None:
        rows.append(("Position", Text(str(result["position"]))))
    rows += wait_rows("Starts", result["wait"], result["wait_unknown"])
    rows.append(("Runs", text_of(_runtime_words(result["runtime"]))))
    outlook = result["screening"]
    rows.append(("Screened first", text_of(f"{'yes' if outlook['tried'] else 'no'}: {outlook['why']}")))
    if outlook["starts_now"] is not None:
        waits = outlook["hold"]
        rows.append(("Screening", text_of("would start now" if waits is None else f"would wait: {waits['detail']}")))
    rows += [("Note", text_of(f"{note}.")) for note in result["notes"]]
    return sheet(rows + _hold_rows(result["hold"]))


def _runtime_words(outlook: RuntimeOutlook) -> str:
    """Return in what a job would run, why, and how many nodes offer that."""
    words = {"container": "in a container", "process": "as a process", "either": "as its node says"}
    known = f"; {outlook['nodes']} of {outlook['of']} nodes of the pool offer that" if outlook["of"] else ""
    return f"{words.get(outlook['runtime'], outlook['runtime'])}: {outlook['why']}{known}"


def nodes_table(nodes: Sequence[Node], now: datetime) -> RenderableType:
    """Return a table with one line per node."""
    if not nodes:
        return Text("No nodes.")
    table = make_table(
        "NODE", "POOL", "ADMIN", "HEALTH", "GPUS", "TYPE", "CPUS", "MEMORY", "RUNS", "LAST SEEN", "REASON"
    )
    for node in nodes:
        table.add_row(
            text_of(node["name"]),
            text_of(node["pool"]),
            text_of(node["admin"]),
            state_text(node["health"]),
            _gpus_in_use(node["gpus"]),
            text_of(", ".join(sorted({gpu["type"] for gpu in node["gpus"]})) or "-"),
            f"{node['cpus_used']}/{node['cpus']}",
            f"{node['memory_used_mib'] // 1024}/{node['memory_mib'] // 1024} GiB",
            text_of(", ".join(node["runtimes"]) or "-"),
            ago(node["last_seen_at"], now),
            text_of(node["reason"] or node["barred"] or ""),
        )
    return table


def _gpus_in_use(gpus: Sequence[Gpu]) -> Text:
    """Return how many GPUs are in use of how many, and how many are not well."""
    count = f"{sum(1 for gpu in gpus if gpu['busy'])}/{len(gpus)}"
    failed = sum(1 for gpu in gpus if not gpu["healthy"])
    warned = sum(1 for gpu in gpus if gpu["healthy"] and gpu["health"] == "warning")
    parts = [f"{failed} failed"] * bool(failed) + [f"{warned} with a warning"] * bool(warned)
    return Text(", ".join([count, *parts]), style="red" if failed else "yellow" if warned else "")


def _gpu_health(gpu: Gpu) -> Text:
    """Return how a GPU is."""
    if not gpu["healthy"]:
        return Text("unhealthy", style="red")
    return Text("warning", style="yellow") if gpu["health"] == "warning" else Text("healthy", style="green")


def gpus_table(gpus: Sequence[Gpu]) -> RenderableType:
    """Return a table with one line per GPU."""
    if not gpus:
        return Text("No GPUs.")
    table = make_table("NODE", "INDEX", "TYPE", "HEALTH", "USE", "MEMORY", "TEMP", "POWER", "JOB", "OWNER")
    for gpu in gpus:
        names = ", ".join(f"{job['id']} {job['name']}" for job in gpu["jobs"])
        used = "-" if gpu["memory_used_mib"] is None else f"{gpu['memory_used_mib'] / 1024:.1f}"
        table.add_row(
            text_of(gpu["node"]),
            str(gpu["index"]),
            text_of(gpu["type"]),
            _gpu_health(gpu),
            "-" if gpu["utilization"] is None else f"{gpu['utilization']:.0f} %",
            f"{used}/{gpu['memory_mib'] / 1024:.0f} GiB",
            "-" if gpu["temperature_c"] is None else f"{gpu['temperature_c']:.0f} °C",
            "-" if gpu["power_w"] is None else f"{gpu['power_w']:.0f} W",
            text_of(names or ("busy" if gpu["busy"] else "free"), _NAME_CHARS),
            text_of(", ".join(sorted({job["owner"] for job in gpu["jobs"]}))),
        )
    return table


def maintenance_table(rows: Sequence[Maintenance]) -> RenderableType:
    """Return a table with one line per time in which nodes are to be free of jobs."""
    if not rows:
        return Text("No maintenance is planned.")
    table = make_table("ID", "NODES", "BEGINS", "ENDS", "STATE", "JOBS", "REASON")
    for one in rows:
        table.add_row(
            str(one["id"]),
            text_of(f"node {one['node']}" if one["node"] else f"pool {one['pool']}"),
            moment_text(one["begins_at"]),
            moment_text(one["ends_at"]),
            "under way" if one["begun_at"] else "planned",
            {"wait": "are waited for", "move": "go elsewhere"}.get(one["running_jobs"], text_of(one["running_jobs"])),
            text_of(one["reason"], _NAME_CHARS),
        )
    return table


def _short_reason(job: JobInList) -> str:
    if job["hold"]:
        return job["hold"]["reason"]
    if job["kept"]:
        return "failed, kept"
    if job["idle"]:
        return "idle"
    if job["failure"]:
        return job["failure"]["title"]
    return _reason_text(job["reason"], job["reason_detail"]) if job["state"] in {"failed", "cancelled"} else ""


def _reason_text(reason: str | None, detail: str | None) -> str:
    """Return why a job ended: of a member that its group stopped in words, and with the reason of that."""
    if reason != "stopped_early":
        return reason or ""
    return f"stopped by its sweep: {detail}" if detail else "stopped by its sweep"


def _hold_rows(hold: Hold | None) -> list[tuple[str, RenderableType]]:
    if hold is None:
        return []
    detail = f": {with_times_in_words(hold['detail'], utc_now())}" if hold["detail"] else ""
    return [("Waits for", text_of(f"{hold['reason']}{detail}")), *_helps_rows(hold["helps"])]


def _rate_rows(rates: Sequence[JobRate]) -> list[tuple[str, RenderableType]]:
    return [("Rates", text_of("\n".join(map(rate_text, rates))))] if rates else []


def _estimate_rows(estimate: RunTimeEstimate | None) -> list[tuple[str, RenderableType]]:
    if estimate is None:
        return []
    source = _SOURCES.get(estimate["source"], clean(estimate["source"]))
    p10_s, p90_s = estimate["p10_s"], estimate["p90_s"]
    between = "" if p10_s is None or p90_s is None else f", 8 in 10 between {duration(p10_s)} and {duration(p90_s)}"
    return [("Expected run time", text_of(f"{duration(estimate['expected_s'])} ({source}{between})"))]


_SOURCES = {
    "user": "its owner's estimate",
    "history": "from similar jobs before it",
    "model": "learned from jobs that have ended",
    "limit": "its time limit",
    "progress": "from its steps so far",
    "sweep": "the steps that its sweep expects of it",
    "outlived": "it has run for longer than nine of ten such jobs",
}


def _efficiency_rows(found: Efficiency | None) -> list[tuple[str, RenderableType]]:
    if found is None:
        return []
    rows: list[tuple[str, RenderableType]] = []
    if found["grade"] is not None and found["utilization"] is not None:
        idle = f", {found['idle_gpus']} of them idle" if found["idle_gpus"] else ""
        share = f"{found['utilization']:.0f} % of the time of its GPUs{idle}"
        rows.append(("Efficiency", Text(f"{clean(found['grade'])}: it used {share}", style=_GRADES[found["grade"]])))
    return [*rows, *(("Advice" if place == 0 else "", text_of(one)) for place, one in enumerate(found["advice"]))]


_GRADES = defaultdict(str, {"good": "green", "poor": "yellow", "idle": "red"})


def _kept_rows(kept: Kept | None, job_id: int, now: datetime) -> list[tuple[str, RenderableType]]:
    if kept is None:
        return []
    left_s = (moment - now).total_seconds() if (moment := parse_moment(kept["until"])) else 0.0
    how = kept["reason"] + ("" if kept["exit_code"] is None else f", exit code {kept['exit_code']}")
    until = f"{moment_text(kept['until'])} ({duration(left_s)} more)"
    text = f"{how}; kept until {until}. Look at it with: muster shell {job_id}"
    return [("Has failed", Text(clean(text), style="yellow"))]


def _resize_rows(resize: FailedResize | None, now: datetime) -> list[tuple[str, RenderableType]]:
    if resize is None:
        return []
    verb = "growing" if resize["wanted"] > resize["before"] else "shrinking"
    failed = f"{verb} from {resize['before']} to {resize['wanted']} GPUs failed {_moment(resize['at'], now)}"
    keeps = f"It keeps {resize['before']} GPUs until {moment_text(resize['until'])}"
    return [("Resize", Text(clean(f"{failed}: {resize['because']}. {keeps}"), style="yellow"))]


def _idle_rows(idle: Idle | None, now: datetime) -> list[tuple[str, RenderableType]]:
    if idle is None:
        return []
    text = f"its GPUs do nothing since {_moment(idle['since'], now)}"
    if idle["stop_at"]:
        text += f"; it is stopped at {moment_text(idle['stop_at'])} if that goes on"
    return [("Idle", Text(clean(text), style="yellow"))]


def _helps_rows(helps: Iterable[str]) -> list[tuple[str, RenderableType]]:
    return [("What helps" if index == 0 else "", text_of(f"- {help_}")) for index, help_ in enumerate(helps)]


def _yes(value: bool) -> Text:
    return Text("yes", style="green") if value else Text("no", style="red")


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _words(key: str) -> str:
    return clean(key).replace("_", " ").capitalize()


def _plain(value: Any, now: datetime) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item, now)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(item, now) for item in value)
    return with_times_in_words(str(value), now)
