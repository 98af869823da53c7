"""scancel and scontrol over REST: what they change, and how they refuse. The texts are those of Slurm 22.05.8."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.arrays.services import submit_array
from muster.common.clock import utc_now
from muster.jobs.attempt.tokens import job_token
from muster.jobs.models import Attempt, Job, JobGroup
from muster.slurm.call import Answer, Call
from muster.slurm.registry import answer_to
from scheduler.model.lifecycle import Desired, GroupState, JobState
from scheduler.model.reasons import Reason
from tests.api.asking import send
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Run = Callable[..., tuple[str, str, int]]
OK = ("", "", 0)


@pytest.fixture
def run(world: World) -> Run:
    """Runs a command as olivia, or as another user; returns what it prints, on both outputs, and its exit code."""

    def answer(
        command: str, *arguments: str, user: User | None = None, manages: bool = True, **environment: str
    ) -> tuple[str, str, int]:
        call = Call(user or world.owner, tuple(arguments), environment, manages=manages)
        found: Answer = answer_to(command, call)
        return found.stdout, found.stderr, found.exit_code

    return answer


@pytest.fixture
def array(world: World) -> JobGroup:
    data = {"command": "true", "vc": "vision-vc", "name": "arr", "array": {"indices": "1-5", "max_parallel": 2}}
    return submit_array(user=world.owner, data=data)[0]


def member(array: JobGroup, index: int) -> Job:
    return Job.objects.get(group=array, array_index=index)


def ended(world: World, **fields: object) -> Job:
    job = make_job(world.vc, world.owner, **{"state": JobState.FAILED, "reason": Reason.EXIT_NONZERO, **fields})
    Job.objects.filter(pk=job.pk).update(attempt_count=1, exit_code=3)
    job.refresh_from_db()
    return job


class TestScancel:
    def test_ends_jobs_by_number(self, world: World, run: Run) -> None:
        assert run("scancel", str(world.waiting.pk), str(world.running.pk)) == OK
        for job in (world.waiting, world.running):
            job.refresh_from_db()
        assert (world.waiting.state, world.running.desired) == (JobState.CANCELLED, Desired.STOP)

    def test_ends_members_of_an_array(self, run: Run, array: JobGroup) -> None:
        assert run("scancel", f"{array.pk}_2", f"{array.pk}_[4-5]") == OK
        assert run("squeue", "-h", "-j", str(array.pk), "-o", "%i")[0] == f"{array.pk}_[1,3%2]\n"
        assert run("scancel", str(array.pk)) == OK
        array.refresh_from_db()
        assert array.state == GroupState.CANCELLED

    def test_ends_what_matches_all_filters(self, world: World, run: Run) -> None:
        assert run("scancel", "-t", "running", str(world.waiting.pk)) == OK
        assert run("scancel", "--me", "-n", "waiting", "-p", "main", "-t", "PD") == OK
        states = Job.objects.filter(owner=world.owner).order_by("pk").values_list("state", flat=True)
        assert list(states) == [JobState.CANCELLED, JobState.ACTIVE]

    @pytest.mark.parametrize(
        ("arguments", "answer"),
        [
            ((), ("", "scancel: error: No job identification provided\n", 1)),
            (("abc",), ("", "scancel: error: Invalid job id abc\n", 1)),
            (("99999",), OK),
            (
                ("-v", "99999"),
                (
                    "",
                    "scancel: Terminating job 99999\n"
                    "scancel: error: Kill job error on job id 99999: Invalid job id specified\n",
                    0,
                ),
            ),
            (("-u", "nobody"), ("", "scancel: error: Invalid user name: nobody\n", 1)),
            (("-s", "FOO", "1"), ("", "Unknown job signal: FOO\n", 1)),
            (
                ("-t", "FOO"),
                (
                    "",
                    "Invalid job state specified: FOO\nValid job states are PENDING, RUNNING, and SUSPENDED\n",
                    1,
                ),
            ),
            (("-w", "nowhere"), OK),
        ],
    )
    def test_refuses_as_slurm_does(self, arguments: tuple[str, ...], answer: tuple[str, str, int], run: Run) -> None:
        assert run("scancel", *arguments) == answer

    def test_sends_no_signal_to_a_job_that_waits(self, world: World, run: Run) -> None:
        job = world.waiting.pk
        told = f"scancel: error: Kill job error on job id {job}: Job can not be altered now, try again later\n"
        assert run("scancel", "-s", "USR1", str(job)) == ("", told, 228)

    def test_leaves_jobs_of_others_alone(self, world: World, run: Run) -> None:
        number = str(world.waiting.pk)
        denied = f"scancel: error: Kill job error on job id {number}: Access/permission denied\n"
        assert run("scancel", number, user=world.peer) == ("", denied, 210)
        assert run("scancel", number, user=world.manager, manages=False) == ("", denied, 210)
        # Another tenant's job is as one that never was.
        assert run("scancel", number, user=world.stranger) == OK
        world.waiting.refresh_from_db()
        assert world.waiting.state == JobState.QUEUED
        assert run("scancel", number, user=world.manager) == OK
        world.waiting.refresh_from_db()
        assert world.waiting.state == JobState.CANCELLED


class TestHold:
    def test_a_job_is_held_and_released(self, world: World, run: Run) -> None:
        job = str(world.waiting.pk)
        assert run("scontrol", "hold", job) == OK
        assert run("squeue", "-h", "-j", job, "-o", "%T %r %Q")[0] == "PENDING JobHeldUser 0\n"
        assert run("scontrol", "release", job) == OK
        assert run("squeue", "-h", "-j", job, "-o", "%T %r")[0] == "PENDING None\n"

    def test_a_held_member_stands_apart_from_its_array(self, run: Run, array: JobGroup) -> None:
        assert run("scontrol", "hold", f"{array.pk}_3") == OK
        lines = run("squeue", "-h", "-n", "arr", "-S", "i", "-o", "%i %r")[0].splitlines()
        assert lines == [f"{array.pk}_[1-2,4-5%2] None", f"{array.pk}_3 JobHeldUser"]
        assert run("scontrol", "release", "name=arr") == OK
        assert not Job.objects.filter(held=True).exists()

    def test_what_cannot_be_held_is_told(self, world: World, run: Run) -> None:
        over, waiting = ended(world).pk, world.waiting.pk
        assert run("scontrol", "hold", "99999") == (
            "",
            "Invalid job id specified for job 99999\nslurm_suspend error: Invalid job id specified\n",
            1,
        )
        assert run("scontrol", "hold", str(over)) == (
            "",
            f"Job has already finished for job {over}\nslurm_suspend error: Job has already finished\n",
            1,
        )
        assert run("scontrol", "hold", str(waiting), user=world.peer) == (
            "",
            f"Invalid user id for job {waiting}\nslurm_suspend error: Invalid user id\n",
            1,
        )


class TestRequeue:
    def test_a_running_job_stops_in_order_to_wait_again(self, world: World, run: Run) -> None:
        assert run("scontrol", "requeue", str(world.running.pk)) == OK
        assert Attempt.objects.get(job=world.running).reason == Reason.REQUEUED_BY_USER

    @pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
    def test_a_job_that_has_ended_waits_again_under_its_number(self, state: JobState, world: World, run: Run) -> None:
        job = ended(world, state=state)
        assert run("scontrol", "requeue", str(job.pk)) == OK
        assert run("squeue", "-h", "-j", str(job.pk), "-O", "jobid:8,state:8,restartcnt:2")[0] == (
            f"{job.pk:<8}PENDING 1 \n"
        )

    def test_a_member_that_succeeded_lets_its_array_go_on(self, run: Run, array: JobGroup) -> None:
        now = utc_now()
        Job.objects.filter(group=array).update(
            state=JobState.SUCCEEDED, ended_at=now, attempt_count=1, hold_reason="", hold=None
        )
        JobGroup.objects.filter(pk=array.pk).update(state=GroupState.SUCCEEDED, ended_at=now)
        assert run("scontrol", "requeue", f"{array.pk}_2") == OK
        array.refresh_from_db()
        assert (member(array, 2).state, array.state) == (JobState.QUEUED, GroupState.ACTIVE)

    def test_a_job_requeues_itself_by_its_own_token(self, world: World) -> None:
        attempt = Attempt.objects.get(job=world.running)
        client = Client(headers={"Authorization": f"Bearer {job_token(attempt.pk)}"})
        answer = send(client, "POST", "/api/v1/slurm/scontrol", {"arguments": ["requeue", str(world.running.pk)]})
        assert answer.json() == {"stdout": "", "stderr": "", "exit_code": 0}
        attempt.refresh_from_db()
        assert attempt.reason == Reason.REQUEUED_BY_USER

    def test_requeuehold_holds_it_too(self, world: World, run: Run) -> None:
        job = ended(world)
        assert run("scontrol", "requeuehold", str(job.pk)) == OK
        job.refresh_from_db()
        assert (job.state, job.held) == (JobState.QUEUED, True)

    def test_what_cannot_be_requeued_is_told(self, world: World, run: Run) -> None:
        once = ended(world)
        once.spec |= {"batch": {}, "retry": {"max": 0}}
        once.save()
        for number, user, problem in (
            (world.waiting.pk, world.owner, "Job is pending execution"),
            (99999, world.owner, "Invalid job id specified"),
            (world.running.pk, world.peer, "Access/permission denied"),
            (world.running.pk, world.stranger, "Invalid job id specified"),
            (once.pk, world.owner, "Requested operation is presently disabled"),
        ):
            assert run("scontrol", "requeue", str(number), user=user) == ("", f"{problem} for job {number}\n", 1)


class TestUpdate:
    def test_name_limit_and_comment_can_be_changed(self, world: World, run: Run) -> None:
        job = world.waiting
        assert run("scontrol", "update", f"JobId={job.pk}", "JobName=better", "TimeLimit=30") == OK
        assert run("scontrol", "update", "job", str(job.pk), "timelimit=+10", "Comment=hey") == OK
        job.refresh_from_db()
        assert (job.name, job.time_limit_s, job.tags["comment"]) == ("better", 2400, "hey")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("JobId=99999", "timelimit=3"), "Invalid job id specified for job 99999\n"),
            (("JobId=1", "foo=3"), "Update of this parameter is not supported: foo=3\nRequest aborted\n"),
            (("JobId=1",), "No changes specified\n"),
            (("JobId=1", "TimeLimit=abc"), "scontrol: error: Invalid TimeLimit value\n"),
            (("NodeName=n1", "State=drain"), "slurm_update error: Invalid user id\n"),
            (
                ("timelimit=3",),
                "No valid entity in update command\nInput line must include "
                '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"\n',
            ),
        ],
    )
    def test_refuses_as_slurm_does(self, words: tuple[str, ...], told: str, run: Run) -> None:
        assert run("scontrol", "update", *words) == ("", told, 1)


class TestShow:
    def test_a_job_in_full(self, world: World, run: Run) -> None:
        job = world.running
        job.spec |= {"batch": {"folder": "/data/run", "output": "slurm-%j.out"}}
        job.save()
        lines = run("scontrol", "show", "job", str(job.pk))[0].splitlines()
        assert lines[0] == f"JobId={job.pk} JobName=running"
        assert lines[3] == "   JobState=RUNNING Reason=None Dependency=(null)"
        assert lines[4] == "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0"
        assert "   NodeList=gpu01" in lines
        assert "   WorkDir=/data/run" in lines
        assert f"   StdOut=/data/run/slurm-{job.pk}.out" in lines
        assert "   TresPerNode=gres:gpu:2" in lines
        on_one_line = run("scontrol", "-o", "show", f"JobId={job.pk}")[0]
        assert on_one_line.count("\n") == 1
        assert on_one_line.split()[0] == f"JobId={job.pk}"

    def test_members_of_an_array_that_wait_are_one_job(self, run: Run, array: JobGroup, world: World) -> None:
        make_attempt(member(array, 1), [make_node(world.pool, "gpu02", gpus=4)])
        text = run("scontrol", "show", "job", str(array.pk))[0]
        heads = [line for line in text.splitlines() if line.startswith("JobId=")]
        assert heads == [
            f"JobId={member(array, 1).pk} ArrayJobId={array.pk} ArrayTaskId=1 ArrayTaskThrottle=2 JobName=arr",
            f"JobId={array.pk} ArrayJobId={array.pk} ArrayTaskId=2-5%2 ArrayTaskThrottle=2 JobName=arr",
        ]
        assert run("scontrol", "show", "job", f"{array.pk}_99")[1:] == (f"Job {array.pk}_99 not found\n", 1)

    def test_an_end_has_its_status(self, world: World, run: Run) -> None:
        job = ended(world)
        assert "   JobState=FAILED Reason=NonZeroExitCode" in run("scontrol", "show", "job", str(job.pk))[0]
        assert " ExitCode=3:0\n" in run("scontrol", "show", "job", str(job.pk))[0]
        Job.objects.filter(pk=job.pk).update(ended_at=utc_now() - timedelta(minutes=6))
        assert run("scontrol", "show", "job", str(job.pk)) == (
            "",
            "slurm_load_jobs error: Invalid job id specified\n",
            1,
        )

    def test_a_node_and_a_partition(self, run: Run) -> None:
        node = run("scontrol", "show", "node", "gpu01")[0].splitlines()
        assert node[0] == "NodeName=gpu01 Arch=x86_64 CoresPerSocket=1 "
        assert "   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A" in node
        partition = run("scontrol", "show", "partition", "main")[0].splitlines()
        assert partition[0] == "PartitionName=main"
        assert "   Nodes=gpu01" in partition

    def test_the_script_of_another_tenant_is_not_shown(self, world: World, run: Run) -> None:
        assert run("scontrol", "show", "job", str(world.others.pk))[1:] == (
            "slurm_load_jobs error: Invalid job id specified\n",
            1,
        )
        assert f"JobId={world.others.pk} " not in run("scontrol", "show", "jobs")[0]

    @pytest.mark.parametrize(
        ("words", "answer"),
        [
            (("show", "hostnames", "n[1-3,5]"), ("n1\nn2\nn3\nn5\n", "", 0)),
            (("show", "hostname", "n[08-09],login"), ("n08\nn09\nlogin\n", "", 0)),
            (("show", "hostnames"), ("", "scontrol: error: host list is empty\n", 0)),
            (("show", "hostlist", "n3,n1,n2,n1"), ("n[3,1-2,1]\n", "", 0)),
            (("show", "hostlistsorted", "n3,n1,n2"), ("n[1-3]\n", "", 0)),
            (("show", "node", "nope"), ("", "Node nope not found\n", 1)),
            (("show", "partition", "nope"), ("", "Partition nope not found\n", 1)),
            (("show", "job", "abc"), ("", "scontrol_print_job error: Invalid job id specified\n", 1)),
            (("show",), ("", "too few arguments for keyword:show\n", 1)),
            (("show", "foo"), ("", "invalid entity:foo for keyword:show \n", 1)),
            (("show", "hostnames", "n1", "n2"), ("", "too many arguments for keyword:show\n", 1)),
            (("foo",), ("", "invalid keyword: foo\n", 1)),
            (("requeue",), ("", "too few arguments for keyword:requeue\n", 1)),
            (("version",), ("slurm-wlm 22.05.8\n", "", 0)),
        ],
    )
    def test_prints_and_refuses_as_slurm_does(
        self, words: tuple[str, ...], answer: tuple[str, str, int], run: Run
    ) -> None:
        assert run("scontrol", *words) == answer

    def test_the_list_of_a_jobs_nodes_is_the_default(self, run: Run) -> None:
        assert run("scontrol", "show", "hostnames", SLURM_NODELIST="n[1-2]")[0] == "n1\nn2\n"
