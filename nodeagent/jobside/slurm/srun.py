"""srun inside a job: it asks the job's supervisor for a step, starts its tasks on their nodes and ends as they do."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent.jobside.slurm import options, wire
from nodeagent.jobside.slurm.environment import SECRETS, SOCKET
from nodeagent.jobside.slurm.hostlists import expand, fold
from nodeagent.jobside.slurm.layout import runs
from nodeagent.jobside.slurm.options import Parsed, Wrong

VERSION = "slurm-wlm 22.05.8"
"""The Slurm whose words these are."""
_HELP = """\
Usage: srun [OPTIONS...] executable [args...]

Starts tasks on the nodes of the job, as srun of Slurm does. The options are told in Muster's help, on its page
Slurm's commands.
"""


def main(words: Sequence[str]) -> int:
    """Run the step that the words ask for, and return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        parsed = options.parse(words[1:], os.environ)
        told = {"help": _HELP, "usage": _HELP, "version": VERSION + "\n"}
        for name, text in told.items():
            if name in parsed.named:
                sys.stdout.write(text)
                return 0
        return _run(parsed)
    except Wrong as wrong:
        for line in wrong.args:
            sys.stderr.write(line + "\n" if line.startswith("Try ") else "srun: {}\n".format(line))
        return wrong.code


def _run(parsed: Parsed) -> int:
    if parsed.given.get("mpi", "none") == "list":
        sys.stdout.write("MPI plugin types are...\n\tnone\n")
        return 0
    if parsed.given.get("mpi", "none") not in ("none", "openmpi"):
        kind = parsed.given["mpi"]
        raise Wrong("error: Invalid MPI type '{}', --mpi=list for acceptable types".format(kind))
    if not parsed.command:
        raise Wrong("fatal: No command given to execute.")
    job = os.environ.get("SLURM_JOB_ID", "")
    asked = parsed.given.get("jobid", job)
    if SOCKET not in os.environ or asked != job:
        raise Wrong(
            "error: Unable to confirm allocation for job {}: Invalid job id specified".format(asked),
            "Check SLURM_JOB_ID environment variable. Expired or invalid job {}".format(asked),
        )
    request = request_of(parsed)
    from nodeagent.jobside.slurm.session import Session  # noqa: PLC0415 - wrong options are told without it

    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(os.environ[SOCKET])
        except OSError as error:
            raise Wrong("error: Unable to create step for job {}: {}".format(job, error.strerror)) from error
        step = _step(server, parsed, request, job)
        session = Session(server, parsed, step, _launch(parsed, request, step), job)
        return session.live()


def request_of(parsed: Parsed) -> dict[str, Any]:
    """The request for a step."""
    given, named = parsed.given, parsed.named
    least, most = options.nodes(given.get("nodes", "1"))
    tasks, per_node = parsed.number("ntasks"), parsed.number("ntasks-per-node")
    per_task = parsed.number("cpus-per-task")
    if tasks is None:
        tasks = least * (per_node or 1)
    elif tasks < least:
        _warn(parsed, "can't run {} processes on {} nodes, setting nnodes to {}".format(tasks, least, tasks))
        least = most = tasks
    if per_node is not None and tasks > per_node and tasks // least != per_node:
        told = "can't honor --ntasks-per-node set to {} which doesn't match the requested tasks {} with the number of "
        _warn(parsed, (told + "requested nodes {}. Ignoring --ntasks-per-node.").format(per_node, tasks, least))
        per_node = None
    with_nodes = _hosts(given.get("nodelist", ""))
    return {
        "nodes": least,
        "max_nodes": max(most, least),
        "tasks": tasks,
        "cpus_per_task": per_task,
        "tasks_per_node": per_node,
        "with_nodes": with_nodes,
        "without_nodes": _hosts(given.get("exclude", "")),
        "first_node": int(given["relative"]) if given.get("relative", "").isdigit() else 0,
        **_gpus(parsed),
        **_memory(parsed),
        "distribution": given.get("distribution", "") if "distribution" in named else "",
        "exact": any(name in given for name in ("exact", "exclusive")),
        "overlap": "overlap" in given,
        "overcommit": "overcommit" in given,
    }


def _warn(parsed: Parsed, told: str) -> None:
    if "quiet" not in parsed.given:
        sys.stderr.write("srun: Warning: {}\n".format(told))


def _hosts(text: str) -> list[str]:
    try:
        return expand(text)
    except ValueError:
        raise Wrong("error: Invalid node list specified") from None


def _gpus(parsed: Parsed) -> dict[str, int]:
    """The GPUs that a step asks for; those of the command line beat those of the job."""
    given, found = parsed.given, {}
    for name in ("gpus", "gpus-per-node", "gpus-per-task"):
        if name in given:
            found[name.replace("-", "_")] = options.gpus(given[name])
    if "gres" in given:
        found["gpus_per_node"] = options.gres(given["gres"])
    if "gres" in parsed.named or "gpus-per-node" in parsed.named:
        return {"gpus_per_node": found["gpus_per_node"]}
    if "gpus-per-task" in parsed.named:
        return {"gpus_per_task": found["gpus_per_task"]}
    return found


def _memory(parsed: Parsed) -> dict[str, int]:
    given = parsed.given
    named = {"memory_named": bool({"mem", "mem-per-cpu"} & parsed.named)}
    if "mem" in given:
        return {**named, "memory_mib": options.mebibytes("mem", given["mem"])}
    if "mem-per-cpu" in given:
        return {**named, "memory_per_cpu_mib": options.mebibytes("mem-per-cpu", given["mem-per-cpu"])}
    return {}


def _step(server: socket.socket, parsed: Parsed, request: Mapping[str, Any], job: str) -> dict[str, Any]:
    """The step, once it has its place.

    Raises:
        Wrong: it never can, or not at once where that is asked.
    """
    server.sendall(wire.line({"create": request}))
    waited = False
    while True:
        told = wire.read_line(server)
        if told is None:
            raise Wrong("error: Unable to create step for job {}: the job is ending".format(job))
        if "refused" in told:
            raise Wrong(*("error: " + line for line in told["refused"]))
        if "waiting" in told:
            if "immediate" in parsed.given:
                raise Wrong("error: Unable to create step for job {}: {}".format(job, told["waiting"]))
            waited = True
            _say(parsed, "Job {} step creation temporarily disabled, retrying ({})".format(job, told["waiting"]))
        if "step" in told:
            if waited:
                _say(parsed, "Step created for job {}".format(job))
            step: dict[str, Any] = told
            return step


def _say(parsed: Parsed, told: str) -> None:
    if "quiet" not in parsed.given:
        sys.stderr.write("srun: {}\n".format(told))
        sys.stderr.flush()


def _launch(parsed: Parsed, request: Mapping[str, Any], step: Mapping[str, Any]) -> list[bytes]:
    """The frame that starts the tasks of each node, in the order of the shares."""
    given = parsed.given
    counts = [len(share["tasks"]) for share in step["shares"]]
    umask = os.umask(0)
    os.umask(umask)
    told = {
        "words": list(parsed.command),
        "folder": os.path.join(os.getcwd(), given["chdir"]) if "chdir" in given else os.getcwd(),
        "environment": {**_exported(parsed), **_variables(parsed, request, step, counts, umask)},
        "umask": umask,
        "unbuffered": "unbuffered" in given,
        "input": _input(parsed),
        "tasks_per_gpu": _tasks_per_gpu(given.get("gpu-bind", "")),
    }
    return [
        wire.frame(wire.LAUNCH, json.dumps({**told, "share": share, "node_index": index}).encode())
        for index, share in enumerate(step["shares"])
    ]


def _input(parsed: Parsed) -> str | int:
    mode = parsed.given.get("input", "all")
    return "none" if mode == "none" else int(mode) if mode.isdigit() else "all"


def _tasks_per_gpu(bind: str) -> int:
    """The tasks that share a GPU by --gpu-bind=single:N; 0 = each sees all."""
    kind, _, number = bind.replace("verbose,", "").partition(":")
    return int(number) if kind == "single" and number.isdigit() else 0


def _exported(parsed: Parsed) -> dict[str, str]:
    """The environment that tasks take from here."""
    asked = parsed.given.get("export", "ALL")
    every = {name: "" if name in SECRETS else value for name, value in os.environ.items()}
    words = asked.split(",")
    if "ALL" in words:
        found = every
    else:
        names = {word for word in words if "=" not in word}
        own = ("SLURM_", "SLURMD_", "MUSTER_ALLOCATION_DIR")
        found = {name: value for name, value in every.items() if name in names or name.startswith(own)}
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and name:
            found[name] = value
    return found


def _variables(
    parsed: Parsed, request: Mapping[str, Any], step: Mapping[str, Any], counts: Sequence[int], umask: int
) -> dict[str, str]:
    """The variables of the step that are the same on all of its nodes."""
    given = parsed.given
    tasks, nodes, number = str(sum(counts)), str(len(counts)), str(step["step"])
    found = {
        "SLURM_DISTRIBUTION": _distribution(request, counts),
        "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0": os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_NNODES": nodes,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS": tasks,
        "SLURM_STEPID": number,
        "SLURM_STEP_ID": number,
        "SLURM_STEP_NODELIST": fold(step["nodes"]),
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": runs(counts),
        "SLURM_TASKS_PER_NODE": runs(counts),
        "SLURM_UMASK": "{:04o}".format(umask),
        "SRUN_DEBUG": "3",
    }
    if request["cpus_per_task"] is not None:
        found["SLURM_CPUS_PER_TASK"] = str(request["cpus_per_task"])
    if "ntasks-per-node" in parsed.named and request["tasks_per_node"] is not None:
        found["SLURM_NTASKS_PER_NODE"] = str(request["tasks_per_node"])
    if "job-name" in given:
        found["SLURM_JOB_NAME"] = given["job-name"]
    if "label" in parsed.named:
        found["SLURM_LABELIO"] = "1"
    return found


def _distribution(request: Mapping[str, Any], counts: Sequence[int]) -> str:
    asked = str(request["distribution"]).partition("=")[0].partition(":")[0]
    return asked or ("block" if sum(counts) > len(counts) else "cyclic")
