"""The fields of a job that squeue can print and sort by, each with its letter, name, header and value."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from muster.slurm.call import Call
from muster.slurm.durations import clock
from muster.slurm.hostlist import fold
from muster.slurm.records import Record
from muster.slurm.states import State, status_of

Value = Callable[[Record], str | datetime | None]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a job."""

    letter: str
    """By which `-o` and `-S` know it; empty if they do not."""
    name: str
    """By which `-O` knows it, in lower case; empty if it does not."""
    header: str
    value: Value
    key: Callable[[Record], float] | None = None
    """The number by which squeue sorts; None: the value."""

    def text(self, one: Record, call: Call) -> str:
        """The value as it is printed."""
        found = self.value(one)
        return found if isinstance(found, str) else call.moment(found)

    def rank(self, one: Record) -> float | str:
        """The value by which squeue sorts; jobs without a time come last."""
        if self.key is not None:
            return self.key(one)
        found = self.value(one)
        return found if isinstance(found, str) else float("inf") if found is None else found.timestamp()


def nodes_or_reason(one: Record) -> str:
    """The nodes of a job, or why it has none, in brackets."""
    if one.state is State.PENDING or (one.state.is_over and one.reason != "None"):
        return f"({one.reason})"
    return fold(one.nodes)


def memory(mib: int) -> str:
    """An amount of memory in the largest unit in which it is whole."""
    for unit, size in (("T", 1 << 20), ("G", 1 << 10)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def gres(one: Record) -> str:
    """The GPUs on each node, as they would be asked for; `N/A` for none."""
    choice = one.job.request.first
    kind = f"{choice.gpu_type.lower()}:" if choice.gpu_type else ""
    return f"gres:gpu:{kind}{choice.gpus}" if choice.gpus else "N/A"


def tres(one: Record) -> str:
    """The resources of all nodes together, as TRES."""
    choice, nodes = one.job.request.first, one.job.request.nodes
    parts = [f"cpu={choice.cpus * nodes}", f"mem={memory(choice.memory_mib * nodes)}", f"node={nodes}"]
    parts.append(f"billing={choice.cpus * nodes}")
    return ",".join([*parts, *([f"gres/gpu={choice.gpus * nodes}"] if choice.gpus else [])])


def priority(one: Record) -> int:
    """The priority of a job, as one number above 0; 0 while it is held."""
    return 0 if one.job.held else one.job.priority + 1


def dependency(one: Record) -> str:
    """The dependencies that are not met."""
    return one.waits_for or "(null)"


def restarts(one: Record) -> int:
    """The number of times that the job went back to the queue."""
    return max(0, one.job.attempt_count - (one.state is not State.PENDING))


def limit(one: Record) -> str:
    """The time limit."""
    return "UNLIMITED" if one.job.time_limit_s is None else clock(one.job.time_limit_s)


def left(one: Record) -> str:
    """The rest of the time limit."""
    return "UNLIMITED" if one.job.time_limit_s is None else clock(one.job.time_limit_s - one.ran_s)


def raw_id(one: Record) -> int:
    """The number of the job; of those of an array that wait together, the array's."""
    return one.array_id if one.indices and one.array_id is not None else one.job.pk


def start(one: Record) -> datetime | None:
    """The start, or the time before which a job that waits cannot start; None if neither is known."""
    if one.state is State.PENDING:
        return one.job.eligible_at if one.reason == "BeginTime" else None
    return one.started_at or one.job.ended_at


def _always(value: str) -> Value:
    return lambda _: value


def _order(one: Record) -> float:
    """The place by number: members of an array by their index, where the array is."""
    return (one.array_id or one.job.pk) + (one.job.array_index or 0) / 1e7


_NULL = "(null)"
FIELDS: tuple[Field, ...] = (
    Field("a", "account", "ACCOUNT", lambda one: one.account),
    Field("A", "jobid", "JOBID", lambda one: str(raw_id(one)), raw_id),
    Field("B", "batchhost", "EXEC_HOST", lambda one: one.nodes[0] if one.nodes else "n/a"),
    Field("b", "tres-per-node", "TRES_PER_NODE", gres),
    Field("c", "mincpus", "MIN_CPUS", lambda one: str(one.job.request.first.cpus)),
    Field(
        "C",
        "numcpus",
        "CPUS",
        lambda one: str(one.job.request.first.cpus * one.job.request.nodes),
        lambda one: one.job.request.first.cpus * one.job.request.nodes,
    ),
    Field("d", "mintmpdisk", "MIN_TMP_DISK", _always("0")),
    Field("D", "numnodes", "NODES", lambda one: str(one.count), lambda one: one.count),
    Field("e", "endtime", "END_TIME", lambda one: one.ended_at),
    Field("E", "dependency", "DEPENDENCY", dependency),
    Field("f", "feature", "FEATURES", _always(_NULL)),
    Field(
        "F",
        "arrayjobid",
        "ARRAY_JOB_ID",
        lambda one: str(one.array_id or one.job.pk),
        lambda one: one.array_id or one.job.pk,
    ),
    Field("g", "groupname", "GROUP", lambda one: one.job.owner.username),
    Field("G", "groupid", "GROUP", lambda one: str(one.job.owner.uid)),
    Field("h", "oversubscribe", "OVER_SUBSCRIBE", _always("OK")),
    Field("H", "sockets", "SOCKETS_PER_NODE", _always("*")),
    Field("i", "jobarrayid", "JOBID", lambda one: one.id, _order),
    Field("I", "cores", "CORES_PER_SOCKET", _always("*")),
    Field("J", "threads", "THREADS_PER_CORE", _always("*")),
    Field("j", "name", "NAME", lambda one: one.job.name),
    Field("k", "comment", "COMMENT", lambda one: str(one.job.tags.get("comment") or _NULL)),
    Field("K", "arraytaskid", "ARRAY_TASK_ID", lambda one: one.task.strip("[]") or "N/A"),
    Field("l", "timelimit", "TIME_LIMIT", limit, lambda one: one.job.time_limit_s or 1e12),
    Field(
        "L",
        "timeleft",
        "TIME_LEFT",
        left,
        lambda one: (one.job.time_limit_s or 1e12) - one.ran_s,
    ),
    Field(
        "m",
        "minmemory",
        "MIN_MEMORY",
        lambda one: memory(one.job.request.first.memory_mib),
        lambda one: one.job.request.first.memory_mib,
    ),
    Field("M", "timeused", "TIME", lambda one: clock(one.ran_s), lambda one: one.ran_s),
    Field("n", "reqnodes", "REQ_NODES", lambda one: fold(one.job.request.nodes_in)),
    Field("N", "nodelist", "NODELIST", lambda one: fold(one.nodes)),
    Field("o", "command", "COMMAND", _always(_NULL)),
    Field("O", "contiguous", "CONTIGUOUS", _always("0")),
    Field("p", "priority", "PRIORITY", lambda one: f"{priority(one) / (1 << 32):.14f}", priority),
    Field("P", "partition", "PARTITION", lambda one: one.partition),
    Field("q", "qos", "QOS", lambda one: one.qos),
    Field("Q", "prioritylong", "PRIORITY", lambda one: str(priority(one)), priority),
    Field("r", "reason", "REASON", lambda one: one.reason),
    Field("R", "reasonlist", "NODELIST(REASON)", nodes_or_reason),
    Field("S", "starttime", "START_TIME", start),
    Field("t", "statecompact", "ST", lambda one: one.state.value),
    Field("T", "state", "STATE", lambda one: one.state.name),
    Field("u", "username", "USER", lambda one: one.job.owner.username),
    Field("U", "userid", "UID", lambda one: str(one.job.owner.uid), lambda one: one.job.owner.uid),
    Field("v", "reservation", "RESERVATION", _always(_NULL)),
    Field(
        "V",
        "submittime",
        "SUBMIT_TIME",
        lambda one: one.job.submitted_at,
    ),
    Field("w", "wckey", "WCKEY", _always(_NULL)),
    Field("W", "licenses", "LICENSES", _always(_NULL)),
    Field("x", "", "EXC_NODES", lambda one: fold(one.job.request.exclude_nodes)),
    Field("X", "corespec", "CORE_SPEC", _always("N/A")),
    Field("y", "nice", "NICE", _always("0")),
    Field("Y", "schednodes", "SCHEDNODES", _always(_NULL)),
    Field("z", "sct", "S:C:T", _always("*:*:*")),
    Field("Z", "workdir", "WORK_DIR", lambda one: one.folder),
    Field("", "cluster", "CLUSTER", lambda one: one.words.get("CLUSTER") or "muster"),
    Field("", "eligibletime", "ELIGIBLE_TIME", lambda one: one.job.eligible_at),
    Field("", "exit_code", "EXIT_CODE", lambda one: str(exit_code(one)[0])),
    Field("", "numtasks", "TASKS", lambda one: str(one.tasks)),
    Field("", "restartcnt", "RESTART_COUNT", lambda one: str(restarts(one))),
    Field("", "requeue", "REQUEUE", lambda one: str(int(one.requeues))),
    Field("", "tres-alloc", "TRES_ALLOC", tres),
    Field("", "tres", "TRES_ALLOC", tres),
    Field("", "tres-per-job", "TRES_PER_JOB", _always("N/A")),
    Field("", "tres-per-task", "TRES_PER_TASK", _always("N/A")),
    Field("", "stdout", "STDOUT", lambda one: one.file("output")),
    Field("", "stderr", "STDERR", lambda one: one.file("error")),
    Field("", "stdin", "STDIN", lambda one: one.file("input")),
)
BY_LETTER: Mapping[str, Field] = {field.letter: field for field in FIELDS if field.letter}
BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS if field.name}


def exit_code(one: Record) -> tuple[int, int]:
    """The exit status of a job, and the signal that ended it: TERM of one that was stopped while it ran."""
    if one.state in {State.CANCELLED, State.TIMEOUT} and one.attempt is not None:
        return 0, int(signal.SIGTERM)
    return status_of(one.state, one.job)
