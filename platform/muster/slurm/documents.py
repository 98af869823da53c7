"""`squeue --json`: jobs in the form of Slurm's OpenAPI plugin v0.0.38, as far as the platform knows of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from muster.slurm import fields
from muster.slurm.hostlist import fold
from muster.slurm.records import Record
from muster.slurm.states import State

_META = {
    "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
    "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"},
}


def document(records: Iterable[Record]) -> str:
    """The jobs as text in JSON."""
    found = {"meta": _META, "errors": [], "jobs": [_job(record) for record in records]}
    return json.dumps(found, indent=2) + "\n"


def _job(one: Record) -> dict[str, Any]:
    job, choice = one.job, one.job.request.first
    status, ended_by = fields.exit_code(one)
    return {
        "account": one.account,
        "array_job_id": one.array_id or 0,
        "array_task_id": None if one.indices else job.array_index,
        "array_max_tasks": job.group.parallel if job.group and one.indices else 0,
        "array_task_string": one.task.strip("[]") if one.indices else "",
        "batch_flag": bool(one.batch),
        "batch_host": one.nodes[0] if one.nodes else "",
        "cluster": one.words.get("CLUSTER") or "muster",
        "comment": str(job.tags.get("comment", "")),
        "cpus": choice.cpus * job.request.nodes,
        "current_working_directory": one.folder,
        "dependency": one.waits_for,
        "eligible_time": _seconds(None if job.blocked_by else job.eligible_at),
        "end_time": _seconds(one.ended_at),
        "excluded_nodes": fold(job.request.exclude_nodes),
        # As Slurm has it: the raw status of the process.
        "exit_code": status << 8 | ended_by,
        "job_id": fields.raw_id(one),
        "job_state": one.state.name,
        "memory_per_node": choice.memory_mib,
        "name": job.name,
        "node_count": one.count,
        "nodes": fold(one.nodes),
        "partition": one.partition,
        "priority": fields.priority(one),
        "qos": one.qos,
        "required_nodes": fold(job.request.nodes_in),
        "requeue": one.requeues,
        "restart_cnt": fields.restarts(one),
        "standard_error": one.file("error") if one.batch else "",
        "standard_input": one.file("input"),
        "standard_output": one.file("output") if one.batch else "",
        "start_time": _seconds(fields.start(one)),
        "state_reason": one.reason,
        "submit_time": _seconds(job.submitted_at),
        "tasks": one.tasks,
        # In minutes; null is no limit.
        "time_limit": None if job.time_limit_s is None else round(job.time_limit_s / 60),
        "tres_alloc_str": "" if one.state is State.PENDING else fields.tres(one),
        "tres_per_node": "" if not choice.gpus else fields.gres(one),
        "tres_req_str": fields.tres(one),
        "user_id": job.owner.uid,
        "user_name": job.owner.username,
    }


def _seconds(at: datetime | None) -> int:
    return 0 if at is None else int(at.timestamp())
