"""sacct of real rows: its tables are those of Slurm 22.05.8, of the jobs that its rules choose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from muster.accounts.models import User
from muster.fleet.models import Node
from muster.jobs.models import Attempt, Job, JobGroup
from muster.slurm.call import Call
from muster.slurm.registry import answer_to
from muster.slurm.sacct import command as module
from muster.tenants.models import VirtualCluster
from scheduler.model.lifecycle import AttemptState, GroupKind, JobState
from scheduler.model.reasons import Reason
from tests.factories import make_attempt, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 28, 15, 0, tzinfo=UTC)
KILLED = {"reason": Reason.KILLED_BY_SIGNAL, "reason_detail": "killed by SIGKILL"}
WORDS = {"SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ACCOUNT": "lab1", "SLURM_JOB_QOS": "short"}


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "utc_now", lambda: NOW)


@pytest.fixture
def vc() -> VirtualCluster:
    return make_vc(make_tenant(), make_pool("main"), "vision")


@pytest.fixture
def ada(vc: VirtualCluster) -> User:
    return make_user("ada", tenant=vc.tenant, uid=1001)


@pytest.fixture
def nodes(vc: VirtualCluster) -> list[Node]:
    return [make_node(vc.pool, name) for name in ("n1", "n2")]


def sacct(user: User, *arguments: str, **environment: str) -> str:
    answer = answer_to("sacct", Call(user, arguments, environment))
    assert (answer.stderr, answer.exit_code) == ("", 0)
    return answer.stdout


def ran(job: Job, nodes: list[Node], state: JobState, *, ago_s: float = 60, for_s: float = 30, **ended: Any) -> Job:
    """The job, after an attempt that began `ago_s` before now and lasted `for_s`."""
    start = NOW - timedelta(seconds=ago_s)
    end = start + timedelta(seconds=for_s)
    attempt = make_attempt(job, nodes, state=AttemptState(state) if state in set(AttemptState) else AttemptState.LOST)
    Attempt.objects.filter(pk=attempt.pk).update(running_at=start, ended_at=end, **ended)
    Job.objects.filter(pk=job.pk).update(
        state=state,
        attempt_count=attempt.number,
        submitted_at=start,
        eligible_at=start,
        ended_at=None if state is JobState.QUEUED else end,
        **ended,
    )
    job.refresh_from_db()
    return job


def script(vc: VirtualCluster, user: User, **fields: Any) -> Job:
    """A job that is a batch script, submitted an hour ago."""
    job = make_job(vc, user, time_limit_s=3600, submitted_at=NOW - timedelta(hours=1), **fields)
    job.eligible_at = job.submitted_at
    job.spec |= {"batch": {"folder": "/data/run"}, "env": WORDS}
    job.save()
    return job


def test_a_script_has_a_record_and_one_of_its_step(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    ok = ran(script(vc, ada, name="averyveryverylongname", nodes=2, cpus=4), nodes, JobState.SUCCEEDED)
    bad = ran(script(vc, ada, name="bad"), nodes[:1], JobState.FAILED, reason=Reason.EXIT_NONZERO, exit_code=3)
    first, second = f"{ok.pk}.batch", f"{bad.pk}.batch"
    assert sacct(ada) == (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        f"{ok.pk:<12} averyvery+        gpu       lab1          8  COMPLETED      0:0 \n"
        f"{first:<12}      batch                  lab1          4  COMPLETED      0:0 \n"
        f"{bad.pk:<12}        bad        gpu       lab1          1     FAILED      3:0 \n"
        f"{second:<12}      batch                  lab1          1     FAILED      3:0 \n"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-P"], "JobID|State\n{0}|COMPLETED\n"),
        (["-p", "-n"], "{0}|COMPLETED|\n"),
        (["-n", "-o", "jobname%4", "--format=state,start%10"], "  ok  COMPLETED 2026-11-28 \n"),
        (["-P", "-o", "jobname%1,start%10"], "JobName|Start\nok|2026-11-28\n"),
        (["-o", "timelimitraw,start%3"], "TimelimitR Sta \n---------- --- \n        60 202 \n"),
        (["-P", "--delimiter=::", "-n"], "{0}::COMPLETED\n"),
        (["-n", "-o", "JOBNAME%-8,sta%4,jobname%3"], "ok       2026  ok \n"),
        (["-n", "-o", "jobname,state%5"], "        ok COMP+ \n"),
        (["-n", "-P", "-o", "reqmem,alloctres"], "2G|billing=8,cpu=8,gres/gpu=2,mem=2G,node=2\n"),
        (["-n", "-P", "-o", "reqtres"], "billing=8,cpu=8,gres/gpu=2,mem=2G,node=2\n"),
        (["-n", "-P", "-o", "reqmem", "--units=K"], "2097152K\n"),
        (["-n", "-P", "-o", "reqmem", "--units=T"], "0.00T\n"),
        (["-n", "-P", "-o", "reqmem", "--noconvert"], "2048M\n"),
        (["-n", "-P", "-o", "nodelist,nnodes,allocnodes"], "n[1-2]|2|2\n"),
        (["-n", "-P", "-o", "elapsed,elapsedraw,cputimeraw"], "00:00:30|30|240\n"),
        (["-n", "-P", "-o", "start,end"], "2026-11-28T14:59:00|2026-11-28T14:59:30\n"),
        (["-n", "-P", "-o", "user,uid,workdir,qos,restarts"], "ada|1001|/data/run|short|0\n"),
        (["-n", "-P", "-o", "timelimit,timelimitraw"], "01:00:00|60\n"),
        (["-n", "-P", "-o", "derivedexitcode,reason,maxrss"], "0:0|None|\n"),
    ],
)  # fmt: skip
def test_fields_and_their_forms(
    vc: VirtualCluster, ada: User, nodes: list[Node], options: list[str], text: str
) -> None:
    job = ran(script(vc, ada, name="ok", nodes=2, cpus=4, gpus=1), nodes, JobState.SUCCEEDED)
    if "-o" not in options:
        options += ["--format", "jobid,state"]
    assert sacct(ada, "-X", *options) == text.format(job.pk)


@pytest.mark.parametrize(
    ("state", "ended", "lines"),
    [
        (JobState.FAILED, {"reason": Reason.TIME_LIMIT}, ["TIMEOUT|0:0", "CANCELLED|0:15"]),
        (JobState.CANCELLED, {"reason": Reason.CANCELLED_BY_USER}, ["CANCELLED by 1001|0:0", "CANCELLED|0:15"]),
        (JobState.FAILED, {"reason": Reason.NODE_LOST}, ["NODE_FAIL|1:0", "CANCELLED|0:15"]),
        (JobState.FAILED, KILLED, ["FAILED|0:9", "CANCELLED|0:9"]),
    ],
)  # fmt: skip
def test_states_of_ends(
    vc: VirtualCluster, ada: User, state: JobState, ended: dict[str, Any], lines: list[str]
) -> None:
    ran(script(vc, ada), [make_node(vc.pool)], state, **ended)
    assert sacct(ada, "-n", "-P", "-o", "state,exitcode").splitlines() == lines


def test_earlier_attempts_are_shown_if_asked_for(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    job = ran(script(vc, ada), nodes[:1], JobState.QUEUED, ago_s=600, reason=Reason.PREEMPTED)
    Job.objects.filter(pk=job.pk).update(requeued_at=NOW - timedelta(seconds=570), reason="")
    form = ("-X", "-n", "-P", "-o", "state,submit,start,restarts")
    assert sacct(ada, *form) == "PENDING|2026-11-28T14:50:30|Unknown|1\n"
    assert sacct(ada, "-D", *form) == (
        "PREEMPTED|2026-11-28T14:50:00|2026-11-28T14:50:00|0\nPENDING|2026-11-28T14:50:30|Unknown|1\n"
    )
    # A job that waits for its turn is in no account, so that the attempt before is its last record.
    Job.objects.filter(pk=job.pk).update(eligible_at=NOW + timedelta(hours=1))
    assert sacct(ada, *form) == "PREEMPTED|2026-11-28T14:50:00|2026-11-28T14:50:00|0\n"
    assert sacct(ada, "-j", str(job.pk), *form).startswith("PENDING|")


def names(user: User, *options: str) -> list[str]:
    return sacct(user, "-X", "-n", "-P", "-o", "jobname", *options).split()


def test_windows_choose_by_the_time_that_jobs_were_there(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    ran(script(vc, ada, name="yesterday"), nodes[:1], JobState.SUCCEEDED, ago_s=86_400)
    ran(script(vc, ada, name="morning"), nodes[:1], JobState.FAILED, ago_s=6 * 3600, reason=Reason.EXIT_NONZERO)
    ran(script(vc, ada, name="night"), nodes[:1], JobState.SUCCEEDED, ago_s=16 * 3600, for_s=2 * 3600)
    script(vc, ada, name="waits")
    script(vc, ada, name="held", held=True)
    Attempt.objects.filter(pk=make_attempt(script(vc, ada, name="runs"), nodes[:1]).pk).update(
        running_at=NOW - timedelta(minutes=5)
    )
    assert names(ada) == ["morning", "night", "waits", "runs"]
    assert names(ada, "-S", "now-2days") == ["yesterday", "morning", "night", "waits", "runs"]
    assert names(ada, "-S", "1127", "-E", "11/28/26-00:30") == ["yesterday", "night"]
    assert names(ada, "-S", "10:00") == ["waits", "runs"]
    assert names(ada, "-s", "R") == ["runs"]
    assert names(ada, "-s", "pd,f") == ["waits"]
    assert names(ada, "-s", "FAILED", "-S", "today") == []
    assert names(ada, "-s", "FAILED", "-S", "today", "-E", "now") == ["morning"]
    failed = str(Job.objects.get(name="morning").pk)
    assert names(ada, "-j", failed, "-s", "F") == ["morning"]
    assert names(ada, "-j", failed, "-s", "F", "-S", "today") == []
    assert names(ada, "-j", f"{Job.objects.get(name='held').pk},999999") == ["held"]


def test_options_choose_among_the_jobs(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    script(vc, ada, name="one")
    ran(script(vc, ada, name="two", nodes=2), nodes, JobState.SUCCEEDED)
    make_job(vc, ada, name="plain", submitted_at=NOW, eligible_at=NOW)
    eve = make_user("eve", tenant=vc.tenant)
    make_job(vc, eve, name="hers", submitted_at=NOW, eligible_at=NOW)
    assert names(ada) == ["one", "two", "plain"]
    assert names(ada, "-a") == ["one", "two", "plain", "hers"]
    assert names(ada, "-u", "eve") == names(ada, "--user", str(eve.uid)) == ["hers"]
    assert names(ada, "--name=two,plain") == ["two", "plain"]
    assert names(ada, "-r", "gpu") == ["one", "two"]
    assert names(ada, "-A", "vision") == ["plain"]
    assert names(ada, "-i", "2-4") == ["two"]
    assert names(ada, "-N", "n[1-2]") == ["two"]
    assert names(ada, "-k", "30", "-K", "120") == ["one", "two"]
    assert names(make_user(operator=True)) == ["one", "two", "plain", "hers"]


def test_jobs_of_other_tenants_are_not_shown(vc: VirtualCluster, ada: User) -> None:
    stranger = make_user("stan", tenant=make_tenant())
    job = make_job(vc, ada, submitted_at=NOW, eligible_at=NOW)
    assert names(stranger, "-a") == names(stranger, "-j", str(job.pk)) == []
    answer = answer_to("sacct", Call(stranger, ("-u", "ada")))
    assert (answer.stderr, answer.exit_code) == ("sacct: error: Invalid user id: ada\n", 1)


def test_members_of_an_array_that_wait_share_a_record(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    group = JobGroup.objects.create(
        kind=GroupKind.ARRAY, tenant=vc.tenant, vc=vc, pool=vc.pool, owner=ada, name="arr", spec={}, size=4, parallel=1
    )
    members = [
        script(vc, ada, name="arr", group=group, member=number, array_index=index)
        for number, index in enumerate((1, 4, 5, 9), start=1)
    ]
    ran(members[0], nodes[:1], JobState.SUCCEEDED)
    form = ("-X", "-n", "-P", "-o", "jobid,jobidraw,state")
    assert sacct(ada, *form) == (f"{group.pk}_1|{members[0].pk}|COMPLETED\n{group.pk}_[4-5,9%1]|{group.pk}|PENDING\n")
    assert sacct(ada, *form, "-j", str(group.pk)) == sacct(ada, *form)
    assert sacct(ada, *form, "-j", f"{group.pk}_1") == f"{group.pk}_1|{members[0].pk}|COMPLETED\n"
    assert sacct(ada, "-n", "-P", "-o", "jobid", "-j", f"{group.pk}_1.batch") == f"{group.pk}_1.batch\n"


@pytest.mark.parametrize(
    ("arguments", "stderr"),
    [
        (["-o", "jobid,bogus"], 'sacct: error: Invalid field requested: "bogus"\n'),
        (["-s", "bogus"], "sacct: fatal: unrecognized job state value 'bogus'\n"),
        (["-s", "CG"], "sacct: fatal: job state CG is not supported / accounted\n"),
        (["-j", "1,abc"], "sacct: fatal: Bad job/step specified: abc\n"),
        (["-S", "bogus"], "Invalid time specification (pos=0): bogus\n"),
        (["--bogus"], "sacct: unrecognized option '--bogus'\n"),
        (["-i", "x"], 'sacct: error: Invalid numeric value "x" for requested node range.\n'),
        (
            ["--units=x"],
            "sacct: error: Invalid unit type 'x'. Possible options are 'KMGTP'\nsacct: fatal: Invalid unit type\n",
        ),
        (["extra"], "sacct: error: Unknown arguments:\nsacct: error:  extra\n"),
        (
            ["-S", "2026-11-28", "-E", "2026-11-27"],
            "sacct: error: Start time (2026-11-28T00:00:00) requested is after end time (2026-11-27T00:00:00).\n",
        ),
    ],
)
def test_what_is_wrong_is_told_as_slurm_tells_it(ada: User, arguments: list[str], stderr: str) -> None:
    answer = answer_to("sacct", Call(ada, tuple(arguments)))
    assert (answer.stdout, answer.stderr, answer.exit_code) == ("", stderr, 1)


def test_the_number_of_queries_is_that_of_one_job(vc: VirtualCluster, ada: User, nodes: list[Node]) -> None:
    counts = []
    for _ in range(2):
        for _ in range(1 + 3 * len(counts)):
            ran(script(vc, ada, nodes=2), nodes, JobState.SUCCEEDED)
        with CaptureQueriesContext(connection) as found:
            sacct(ada, "-D", "-o", "all")
        counts.append(len(found))
    assert counts[0] == counts[1]
