"""The part of a run on which two systems must agree: no names of machines and folders, no numbers of jobs and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.sbatch.values import hosts
from tests.slurm.runs import Run
from tests.slurm.scripts import Script

# Variables that scripts rely on; others that begin with SLURM_ are of the daemons, or differ between sites.
_SHAPE = """JOB_NUM_NODES NNODES NTASKS NPROCS NTASKS_PER_NODE TASKS_PER_NODE CPUS_PER_TASK CPUS_ON_NODE
JOB_CPUS_PER_NODE MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU GPUS GPUS_PER_NODE GPUS_PER_TASK GPUS_ON_NODE
CPUS_PER_GPU NTASKS_PER_GPU"""
_PLACE = """PROCID LOCALID NODEID STEP_ID STEPID STEP_NUM_TASKS STEP_NUM_NODES STEP_TASKS_PER_NODE
ARRAY_TASK_ID ARRAY_TASK_COUNT ARRAY_TASK_MIN ARRAY_TASK_MAX ARRAY_TASK_STEP RESTART_COUNT"""
_JOB = "JOB_NAME SUBMIT_DIR JOB_PARTITION JOB_ACCOUNT JOB_QOS EXPORT_ENV JOB_DEPENDENCY"
_COMPARED = {f"SLURM_{name}" for name in f"{_SHAPE} {_PLACE} {_JOB}".split()} | {
    *("SRUN_CPUS_PER_TASK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK"),
    "OMP_NUM_THREADS",
}
_IDS = {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID"}
_NODELISTS = {"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SLURMD_NODENAME"}
_GPUS = {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"}
_SET = {"SLURM_SUBMIT_HOST", "SLURM_JOB_USER", "SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_CLUSTER_NAME"}
_CHATTER = ("slurmstepd", "srun:", "sbatch:", "scancel:")
_FAILED = "Batch job submission failed"
_ID = re.compile(r"(?<!\d)7\d{5}(?!\d)")
_PORTS = re.compile(r"(?<!\d)1\d{4}(?!\d)")


def likeness(script: Script, run: Run) -> dict[str, Any]:
    """The part of a run that is compared, as JSON has it."""
    if not run.jobs:
        lines = run.submitted.stderr.splitlines()
        # Muster adds the line of the script, and the numbers.
        return {"refused": [one for one in lines if _FAILED in one] or lines[:1], "code": run.submitted.returncode}
    names = _Names(script, run)
    found: dict[str, Any] = {"says": names.text(run.submitted.stdout.strip()), "code": run.submitted.returncode}
    notes: dict[str, list[Mapping[str, Any]]] = {label: [] for label in names.jobs}
    for note in run.notes:
        notes[names.label_of(note["env"])].append(note)
    found["jobs"] = {label: _job(script, job, notes[label], names) for label, job in names.jobs.items()}
    found["files"] = {names.text(name): _lines(text, names) for name, text in run.files.items()}
    times = {label: [note["time"] for note in of_job] for label, of_job in notes.items()}
    for before, after in script.order:
        found[f"{before} is over before {after}"] = _is_over_before(times, before, after)
    if script.at_most:
        found[f"at most {script.at_most} at once"] = _at_once(times) <= script.at_most
    return found


class _Names:
    """Names for the jobs, nodes, folders and numbers of one run."""

    def __init__(self, script: Script, run: Run) -> None:
        self.script, self.run = script, run
        self.jobs: dict[str, Mapping[str, str]] = {}
        for job in sorted(run.jobs, key=lambda job: (int(job.get("ArrayJobId", job["JobId"])), _index(job))):
            label = name = job["JobName"] + (f"[{job['ArrayTaskId']}]" if "ArrayTaskId" in job else "")
            number = 2
            while label in self.jobs:
                label, number = f"{name}#{number}", number + 1
            self.jobs[label] = job
        self._label = {job["JobId"]: label for label, job in self.jobs.items()}
        self._written = {
            **{job["JobId"]: f"<{label}>" for label, job in self.jobs.items()},
            **{job["ArrayJobId"]: f"<{job['JobName']}>" for job in self.jobs.values() if "ArrayJobId" in job},
        }

    def label_of(self, env: Mapping[str, str]) -> str:
        """The label of the job in which a tool was called."""
        return self._label[env["SLURM_JOB_ID"]]

    def text(self, text: str, nodes: Sequence[str] = ()) -> str:
        """The text without what differs between two runs; nodes are named by their place in the list."""
        text = text.replace(str(self.run.place.folder), "<dir>").replace(str(self.run.place.base), "<base>")
        text = re.sub(r"/\S*/slurm_script:", "<script>:", text)
        text = _ID.sub(lambda match: self._written.get(match[0], match[0]), text)
        ports = {str(10000 + int(number) % 10000) for number in self._written}
        text = _PORTS.sub(lambda match: "<port>" if match[0] in ports else match[0], text)
        if self.script.nodes:
            return text
        return re.sub(r"(?<![\w.-])n[1-4](?![\w.-])", lambda match: _node(match[0], nodes), text)


def _node(name: str, nodes: Sequence[str]) -> str:
    return f"<node{nodes.index(name)}>" if name in nodes else "<node>"


def _index(job: Mapping[str, str]) -> int:
    return int(job.get("ArrayTaskId", 0))


def _job(script: Script, job: Mapping[str, str], notes: Sequence[Mapping[str, Any]], names: _Names) -> dict[str, Any]:
    gpus = _gpu_names(notes)
    calls = [_call(note, names, gpus) for note in sorted(notes, key=lambda note: note["time"])]
    if script.unordered:
        for call in calls:
            for name in ("SLURM_STEP_ID", "SLURM_STEPID"):
                call["env"].pop(name, None)
        calls.sort(key=lambda call: (call["tool"], call["argv"], call["env"]["SLURMD_NODENAME"], _rank(call)))
    else:
        calls = _by_step(calls)
    common = dict(calls[0]["env"]) if calls else {}
    for call in calls[1:]:
        common = {name: value for name, value in common.items() if call["env"].get(name) == value}
    for call in calls:  # the record of 150 scripts is read by people, too
        call["env"] = {name: value for name, value in call["env"].items() if name not in common}
    state = f"PENDING ({job['stuck']})" if "stuck" in job else f"{job['JobState']} {job['ExitCode']}"
    return {"ends": state, "restarts": int(job.get("Restarts", 0)), "env": common, "calls": calls}


def _rank(call: Mapping[str, Any]) -> int:
    return int(call["env"].get("SLURM_PROCID", 0))


def _by_step(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls in their order, but those of one step by rank."""
    first: dict[tuple[str, str], int] = {}
    keys = []
    for place, call in enumerate(calls):
        env = call["env"]
        step = env.get("SLURM_STEP_ID")
        run = env.get("SLURM_RESTART_COUNT", "0")
        begin = place if step is None else first.setdefault((run, step), place)
        keys.append((begin, int(env.get("SLURM_PROCID", 0)) if step is not None else 0, place))
    return [calls[place] for *_, place in sorted(keys)]


def _call(note: Mapping[str, Any], names: _Names, gpus: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    env: Mapping[str, str] = note["env"]
    nodes = hosts(env["SLURM_JOB_NODELIST"])
    found: dict[str, str] = {}
    for name, value in sorted(env.items()):
        if name in _SET:
            found[name] = "<set>" if value else ""
        elif name in _NODELISTS:
            found[name] = names.text(",".join(hosts(value)), nodes)
        elif name == "SLURM_JOB_GPUS" and "SLURM_STEP_ID" in env:
            continue  # inherited from the node of the batch script, not of this one
        elif name in _GPUS:
            found[name] = ",".join(gpus.get((_place(env), gpu), gpu) for gpu in value.split(","))
        elif name in {"SLURM_JOB_ID", "SLURM_JOBID"} and "SLURM_ARRAY_TASK_ID" in env:
            found[name] = "<own>"
        elif name in _IDS | _COMPARED or name.startswith("APP_"):
            found[name] = names.text(value, nodes)
    argv = [names.text(word, nodes) for word in note["argv"]]
    return {"tool": note["tool"], "argv": argv, "cwd": names.text(note["cwd"], nodes), "env": found}


def _place(env: Mapping[str, str]) -> str:
    return f"{env['SLURMD_NODENAME']} {env.get('SLURM_RESTART_COUNT', 0)}"


def _gpu_names(notes: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Names of the GPUs of a job on each node by their order there, so that 2,3 on one system is 0,1 on another."""
    found: dict[str, set[str]] = {}
    for note in notes:
        env = note["env"]
        own = _GPUS if "SLURM_STEP_ID" not in env else _GPUS - {"SLURM_JOB_GPUS"}
        for name in own:
            found.setdefault(_place(env), set()).update(filter(str.isdigit, env.get(name, "").split(",")))
    return {
        (place, gpu): f"g{number}" for place, gpus in found.items() for number, gpu in enumerate(sorted(gpus, key=int))
    }


def _lines(text: str, names: _Names) -> list[str]:
    """The lines of a file, sorted; those of the system's own programs are left out."""
    return sorted(names.text(line) for line in text.splitlines() if line.strip() and not line.startswith(_CHATTER))


def _is_over_before(times: Mapping[str, Sequence[float]], before: str, after: str) -> bool:
    """True if the last call of one job came before the first of the other; a name stands for all of its array."""

    def of(name: str) -> list[float]:
        return [at for label, all_ in times.items() if label == name or label.startswith(f"{name}[") for at in all_]

    one, other = of(before), of(after)
    return bool(one and other) and max(one) <= min(other)


def _at_once(times: Mapping[str, Sequence[float]]) -> int:
    """The largest number of jobs that were between their first and their last call at one moment."""
    spans = [(min(all_), max(all_)) for all_ in times.values() if all_]
    return max((sum(low <= start < high for low, high in spans) for start, _ in spans), default=0)


def differences(wanted: object, got: object, where: str = "") -> Iterator[str]:
    """Each place where two likenesses differ, with both values."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in sorted({*wanted, *got}):
            if key not in got:
                yield f"{where}/{key}: Slurm has {wanted[key]!r}"
            elif key not in wanted:
                yield f"{where}/{key}: Slurm has none, got {got[key]!r}"
            else:
                yield from differences(wanted[key], got[key], f"{where}/{key}")
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from differences(one, other, f"{where}/{number}")
    elif wanted != got:
        yield f"{where}: Slurm has {wanted!r}, got {got!r}"
