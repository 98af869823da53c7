"""Tables and messages for people."""

from __future__ import annotations

import io
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.table import Table

from muster_client.show import render, times
from muster_client.show.account import vcs_table
from muster_client.show.output import PIPE_WIDTH
from muster_client.show.tables import plain_lines
from tests.unit.client.fake_server import failure, job, why

NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
GPU: Any = {
    "uuid": "GPU-1",
    "index": 0,
    "node": "gpu01",
    "type": "A100",
    "memory_mib": 40960,
    "healthy": True,
    "health": "ok",
    "utilization": 87.4,
    "memory_used_mib": 20480,
    "temperature_c": 61,
    "power_w": 250.2,
    "jobs": [{"id": 7, "name": "train", "owner": "ada", "tenant": "acme"}],
    "busy": True,
}
DARK_GPU: Any = {
    **GPU,
    "utilization": None,
    "memory_used_mib": None,
    "temperature_c": None,
    "power_w": None,
    "jobs": [],
}
NODE: Any = {
    "name": "gpu01",
    "pool": "main",
    "admin": "active",
    "health": "ready",
    "reason": None,
    "address": "10.0.0.1",
    "cpus": 64,
    "cpus_used": 8,
    "memory_mib": 262144,
    "memory_used_mib": 32768,
    "rack": "r1",
    "labels": {},
    "last_seen_at": "2026-11-21T00:59:58Z",
    "runtimes": ["process"],
    "barred": None,
    "gpus": [GPU, {**DARK_GPU, "busy": False}],
}


def shown(*parts: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=300, markup=False)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_problem_shows_its_title_and_each_field() -> None:
    text = shown(
        *render.problem_lines(
            {
                "type": "about:blank#invalid",
                "title": "The job spec is not valid",
                "status": 422,
                "detail": "Two keys are wrong.",
                "errors": [
                    {"field": "gpus", "message": "has to be 0 or more"},
                    {"field": "checkpoint.grace", "message": "write it like 120s"},
                ],
            }
        )
    )
    assert text.splitlines() == [
        "error: The job spec is not valid (422)",
        "  Two keys are wrong.",
        "  gpus: has to be 0 or more",
        "  checkpoint.grace: write it like 120s",
    ]


def test_a_detail_that_only_repeats_the_fields_is_left_out() -> None:
    document: Any = {"type": "", "title": "Wrong", "status": 422, "detail": "gpus: no; nodes: no"}
    errors = [{"field": "gpus", "message": "no"}, {"field": "nodes", "message": "no"}]
    lines = shown(*render.problem_lines({**document, "errors": errors})).splitlines()
    assert lines == ["error: Wrong (422)", "  gpus: no", "  nodes: no"]


def test_names_of_others_cannot_steer_the_terminal_or_the_markup() -> None:
    text = shown(render.jobs_table([job(name="\x1b[2J[red]evil\n")], NOW))
    assert "\x1b" not in text
    assert "[red]evil" in text


def test_jobs_show_their_reason_for_waiting() -> None:
    held = job(hold={"reason": "quota", "detail": "6 of 8", "helps": ["Wait."]})
    lines = shown(render.jobs_table([held], NOW)).splitlines()
    assert " ".join(lines[0].split()) == "ID NAME STATE VC OWNER GPUS PRIORITY SUBMITTED RUN TIME WHY"
    assert lines[1].split() == ["7", "train", "queued", "vision", "ada", "2", "normal", "1", "h", "ago", "-", "quota"]


def test_a_job_with_several_gpu_types_shows_the_range_of_its_sizes() -> None:
    choices = [{"gpu_type": "A100", "gpus": 4}, {"gpu_type": "V100", "gpus": 8}]
    spec = {"nodes_in": ["gpu01", "gpu02"], "exclude_nodes": ["gpu07"]}
    wide = job(gpu_choices=choices, spec=spec)
    assert shown(render.jobs_table([wide], NOW)).splitlines()[1].split()[5] == "4–8"
    text = " ".join(shown(render.job_sheet(wide, NOW)).split())
    assert "GPUs 4–8 in all, priority normal GPUs per node 4 A100 or 8 V100, in this order" in text
    assert "Nodes in gpu01, gpu02 Excluded nodes gpu07" in text


def test_a_job_sheet_tells_what_went_wrong() -> None:
    failed = job(
        state="failed",
        exit_code=3,
        started_at="2026-11-21T00:10:00Z",
        ended_at="2026-11-21T00:12:30Z",
        run_time_s=150.0,
        reason="exit_nonzero",
        reason_detail="rank 0 exited with 3",
        failure=failure(
            title="GPU out of memory",
            line="CUDA out of memory",
            hint="Less batch.",
            retried="Attempt 1 was tried again, because jobs failed in a row on its node.",
        ),
        spec={"command": "python train.py"},
    )
    text = shown(render.job_sheet(failed, NOW))
    for part in (
        "2 min 30 s",
        "exit_nonzero: rank 0 exited with 3",
        "GPU out of memory",
        "CUDA out of memory",
        "Less batch.",
        "jobs failed in a row on its node",
        "python train.py",
    ):
        assert part in text


def test_last_words_are_not_passed_off_as_the_cause() -> None:
    text = shown(render.job_sheet(job(state="failed", failure=failure(last_words="Segment 7 is odd")), NOW))
    assert "Segment 7 is odd" in text
    assert "nothing says that this is why" in text
    assert "Printed last" not in shown(render.job_sheet(job(state="failed", failure=failure()), NOW))


def test_an_idle_job_is_marked_and_says_when_it_is_stopped() -> None:
    idle = {"since": "2026-11-21T00:30:00Z", "stop_at": "2026-11-21T01:30:00Z"}
    text = shown(render.job_sheet(job(state="active", idle=idle), NOW))
    assert "do nothing since 2026-11-21 00:30 UTC (30 min ago)" in text
    assert "it is stopped at 2026-11-21 01:30 UTC" in text
    warned = {**idle, "stop_at": None}
    assert "it is stopped" not in shown(render.job_sheet(job(state="active", idle=warned), NOW))
    assert "idle" in shown(render.jobs_table([job(state="active", idle=warned)], NOW))


def test_a_failed_job_that_is_kept_says_until_when_and_how_to_get_in() -> None:
    kept = {"until": "2026-11-21T01:20:00Z", "reason": "exit_nonzero", "exit_code": 3}
    text = shown(render.job_sheet(job(id=7, state="active", kept=kept), NOW))
    assert "exit_nonzero, exit code 3; kept until 2026-11-21 01:20 UTC (20 min more)" in text
    assert "muster shell 7" in text
    assert "failed, kept" in shown(render.jobs_table([job(state="active", kept=kept)], NOW))


def test_a_list_and_why_name_the_class_of_a_failure() -> None:
    known = failure(title="Import error", line="ModuleNotFoundError: No module named 'nope'", hint="Install it.")
    failed = job(state="failed", exit_code=1, reason="exit_nonzero", failure=known)
    row = shown(render.jobs_table([failed], NOW))
    assert "Import error" in row
    assert "exit_nonzero" not in row
    told = why(state="failed", reason="exit_nonzero", detail="exit status 1", failure=known)
    text = shown(render.why_sheet(told))
    assert all(part in text for part in ("Import error", "No module named 'nope'", "Install it."))
    assert "exit status" not in text


def test_a_moment_in_a_text_is_read_in_the_local_zone_and_how_far_off_it_is() -> None:
    text = times.with_times_in_words("it tries again at 2026-11-21T01:00:04Z", NOW)
    assert re.fullmatch(r"it tries again at \d\d:\d\d:04, in 4 s", text)


def test_a_job_tells_of_a_resize_that_did_not_come_back() -> None:
    at = "2026-11-21T01:00:00Z"
    failed = {"before": 2, "wanted": 4, "at": at, "because": "Exit code 1: no such file", "until": at}
    text = " ".join(shown(render.job_sheet(job(failed_resize=failed), NOW)).split())
    assert "growing from 2 to 4 GPUs failed" in text
    assert "Exit code 1: no such file. It keeps 2 GPUs until" in text
    assert "Resize" not in shown(render.job_sheet(job(failed_resize=None), NOW))


def test_a_waiting_job_tells_on_which_type_it_finishes_first() -> None:
    finish = {"summary": "V100 now finishes before A100 in 4 h", "detail": "On V100 it would start now.", "types": []}
    text = " ".join(shown(render.job_sheet(job(finish=finish), NOW)).split())
    assert "V100 now finishes before A100 in 4 h. On V100 it would start now. Jobs ahead of it" in text
    assert "By GPU type" not in shown(render.job_sheet(job(finish=None), NOW))


def test_why_shows_the_evidence_and_what_helps() -> None:
    text = shown(
        render.why_sheet(
            why(
                detail="Your virtual cluster uses 6 of 8 A100.",
                evidence={"quota_gpus": 8, "by_type": {"A100": 6}, "jobs": [1, 2]},
                helps=["Ask for 2 GPUs.", "Wait for job 6."],
                position=3,
                estimate={"expected_s": 5400, "p10_s": 600, "p90_s": 14_400, "source": "history"},
                cycle=9,
            )
        )
    )
    for part in (
        "Quota gpus",
        "A100 6",
        "1, 2",
        "- Ask for 2 GPUs.",
        "- Wait for job 6.",
        "uses 6 of 8",
        "1 h 30 min (from similar jobs before it, 8 in 10 between 10 min and 4 h)",
    ):
        assert part in text


def test_nodes_and_gpus_show_their_use() -> None:
    text = shown(render.nodes_table([NODE], NOW))
    for part in ("gpu01", "1/2", "8/64", "32/256 GiB", "2 s ago"):
        assert part in text
    text = shown(render.gpus_table([GPU, DARK_GPU]))
    for part in ("87 %", "20.0/40 GiB", "61 °C", "250 W", "7 train", "busy", "-/40 GiB"):
        assert part in text


def test_a_virtual_cluster_without_quotas_has_a_line_too() -> None:
    base: Any = {"tenant": "acme", "pool": "main", "waiting": 1, "active": 2}
    quotas = [{"gpu_type": "A100", "gpus": 8, "used": 6}]
    vcs: Any = [{"name": "v1", "quotas": quotas, **base}, {"name": "v2", "quotas": [], **base}]
    text = shown(vcs_table(vcs))
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["v1", "acme", "main", "A100", "6", "8", "1", "2"],
        ["v2", "acme", "main", "-", "-", "-", "1", "2"],
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3700, "1 h 1 min"), (90000, "1 d 1 h"), (-5, "0 s")],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert times.duration(seconds) == text


def test_times_that_cannot_be_read_become_a_dash() -> None:
    assert times.ago(None, NOW) == "-"
    assert times.ago("yesterday", NOW) == "-"
    assert times.ago("2026-11-21T00:57:00", NOW) == "3 min ago"


def test_moments_are_shown_in_the_time_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    text = shown(render.job_sheet(job(started_at="2026-07-21T00:00:00Z"), NOW))
    assert "2026-11-21 01:00 CET (1 h ago)" in text
    assert "2026-07-21 02:00 CEST" in text


def test_run_time_leaves_out_the_pauses_between_attempts() -> None:
    ended = job(started_at="2026-11-20T00:00:00Z", ended_at="2026-11-20T23:00:00Z", run_time_s=600.0)
    again = job(state="active", run_time_s=600.0, running_since="2026-11-21T00:55:00Z")
    assert times.run_time(ended, NOW) == "10 min"
    assert times.run_time(again, NOW) == "15 min"
    assert times.run_time(job(), NOW) == "-"


def test_a_job_that_waits_for_its_quota_is_told_who_has_the_gpus() -> None:
    holder = {"owner": "pete", "gpus": 3, "jobs_total": 2, "jobs": [{"id": 12, "name": "large", "gpus": 2}]}
    text = shown(render.why_sheet(why(position=297, holders=[holder])))
    assert "pete: 3, by 12 large (2) and 1 more" in text


def test_a_table_in_a_pipe_is_what_the_console_writes_there() -> None:
    jobs = [job(id=7, name="größe 図", vc="a"), job(id=12345, name="x" * 60)]
    for table in (render.jobs_table(jobs, NOW), render.job_sheet(jobs[0], NOW)):
        assert isinstance(table, Table)
        stream = io.StringIO()
        Console(file=stream, width=PIPE_WIDTH, markup=False, highlight=False, soft_wrap=True).print(table)
        lines = plain_lines(table, PIPE_WIDTH)
        assert lines is not None
        assert [line.rstrip() for line in lines] == [line.rstrip() for line in stream.getvalue().splitlines()]
        assert plain_lines(table, 20) is None
