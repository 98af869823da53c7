"""From a script with its options to a spec, with a line of report for each option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from muster.sbatch import values
from muster.sbatch.command import command_of
from muster.sbatch.directives import Refused, failed, read_directives
from muster.sbatch.exports import assigned
from muster.sbatch.features import nodes_with
from muster.sbatch.geometry import MEMORY, Asked, Layout, layout_of, take
from muster.sbatch.moments import moment
from muster.sbatch.options import Fate, Given, Source, given_by, given_in, parse
from muster.sbatch.running import batch_of, below, export_of, variables_of
from muster.sbatch.site import Partition, Qos, Site
from scheduler.model.given import check_name

_MAIL = {
    "BEGIN": ("started",),
    "END": ("ended",),
    "FAIL": ("failed",),
    "REQUEUE": ("requeued",),
    "ALL": ("started", "ended", "failed", "requeued"),
}
_NO_MAIL = (
    "NONE",
    "STAGE_OUT",
    "INVALID_DEPEND",
    "ARRAY_TASKS",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
)
_FLAGS = frozenset({"parsable", "quiet", "test-only", "wait"})
_NO_ACCOUNT = failed("Invalid account or account/partition combination specified")
_NOT_AVAILABLE = failed("Requested node configuration is not available")
_POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
_TOO_LONG = "Requested time limit is invalid (missing or exceeds some limit)"
# Options that set one thing.
_SAME = {"tasks-per-node": "ntasks-per-node", "requeue": "no-requeue", "oversubscribe": "exclusive"}
_AFTER = {"after": "started", "afterany": "any", "afternotok": "failed", "afterok": "ok", "aftercorr": "corr"}


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission: a script with its name, or the command of `--wrap`; and the options beside it."""

    script: str = ""
    name: str = "sbatch"
    options: Sequence[str] = ()
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """The folder in which it is submitted; empty: unknown."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of an option."""

    source: Source
    line: int | None
    text: str
    fate: Fate
    says: str


@dataclass(frozen=True, slots=True)
class Translation:
    """The spec of a script, the report, and what the submitter should know."""

    spec: dict[str, Any]
    report: tuple[Entry, ...]
    notes: tuple[str, ...]
    folder: str | None = None
    """The folder of the submission where nodes have it too, so that the job runs in place."""
    export: str = "ALL"
    """The value of `--export`, by which the submitter's environment goes with a job that runs in place."""
    keeps_waiting: bool = True
    """True if it waits on where a dependency can never be met."""
    flags: frozenset[str] = frozenset()
    """The options that say what is printed, such as `parsable`, and `test-only`."""


def translate(submission: Submission, site: Site, now: datetime) -> Translation:
    """The spec that the script asks for at a moment, whose time zone its times have.

    Raises:
        Refused: Slurm would refuse it, or Muster cannot do what it asks; with the line of the script.
    """
    effective, report = settle(submission)
    return _Translator(submission, site, now, effective, report).translation()


def settle(submission: Submission) -> tuple[dict[str, Given], list[Entry]]:
    """The options that hold, by name, and the report on those that are overridden.

    The command line beats the environment, which beats the script; within one of them the last one holds.
    """
    command_line, rest = parse(submission.options, source=Source.COMMAND_LINE)
    if rest:
        raise Refused(f"{rest[0]} is no option of sbatch")
    wrapped = any(given.option.name == "wrap" for given in command_line)
    if wrapped and submission.script:
        raise Refused(
            "--wrap and a script exclude each other", slurm="Script arguments not permitted with --wrap option"
        )
    directives = [] if wrapped else read_directives(submission.script)
    from_environment = _without_other_memory(given_by(submission.environment), given_in(directives), command_line)
    effective: dict[str, Given] = {}
    report: list[Entry] = []
    for given in (*given_in(directives), *from_environment, *command_line):
        name = _SAME.get(given.option.name, given.option.name)
        if name in effective:
            report.append(_entry(effective[name], Fate.IGNORED, f"{given.text} ({given.source}) beats it"))
        effective[name] = given
    return effective, report


def _without_other_memory(environment: list[Given], script: list[Given], command_line: list[Given]) -> list[Given]:
    """The options of the environment, without those of memory where another one is given: that one holds."""
    named = {given.option.name for given in (*script, *command_line)} & set(MEMORY)
    return [given for given in environment if given.option.name not in MEMORY or named <= {given.option.name}]


def _entry(given: Given, fate: Fate, says: str) -> Entry:
    return Entry(given.source, given.line, given.text, fate, says)


class _Translator:
    def __init__(
        self, submission: Submission, site: Site, now: datetime, effective: dict[str, Given], report: list[Entry]
    ) -> None:
        self._submission, self._site, self._now = submission, site, now
        self._given, self._report = effective, report
        self._notes: list[str] = []
        self._spec: dict[str, Any] = {}
        self._env: dict[str, str] = {}

    def translation(self) -> Translation:
        for given in self._given.values():
            if given.option.fate is Fate.REFUSED:
                raise given.refused(given.option.why)
            if given.option.values and not re.fullmatch(given.option.values, given.value, re.ASCII):
                raise given.invalid("it has no such value")
        partition = self._partition()
        self._read("account", lambda _: None, says="vc")
        qos = self._qos()
        layout, sized = self._layout(partition)
        self._name()
        self._time(partition, qos)
        self._nodes(partition, layout)
        size = self._size(layout, partition)
        self._require_room(layout, size, partition)
        self._when()
        self._read("signal", lambda given: values.signal(given.value))
        self._retry_and_mail()
        folder = self._site.in_place(self._submission.folder)
        self._run(folder)
        self._rest(sized)
        spec = {"name": self._spec.pop("name"), "command": self._command(), **size, **self._spec}
        variables = variables_of(self._given, spec["name"], layout, partition)
        spec["env"] = self._env | variables | {"SLURM_CLUSTER_NAME": self._site.cluster_name}
        if folder is not None:
            spec["env"]["SLURM_SUBMIT_DIR"] = folder
        # A script may submit others or write into shared folders, so it does not run on trial first.
        spec |= {"batch": batch_of(self._given, layout, folder), "screening": "never"}
        # By line within each source, as a reader goes through the script.
        order = list(Source)
        report = sorted(self._report, key=lambda entry: (order.index(entry.source), entry.line or 0))
        waits = "kill-on-invalid-dep" not in self._given or self._given["kill-on-invalid-dep"].value == "no"
        return Translation(
            spec,
            tuple(_with_values(entry, spec) for entry in report),
            tuple(self._notes),
            folder,
            export_of(self._given),
            waits,
            frozenset(_FLAGS & self._given.keys()),
        )

    # Each of these puts keys into the spec and says so in the report.

    def _read(self, name: str, read: Callable[[Given], object], *, says: str | None = None) -> None:
        """Call `read` with the option if it is given; a ValueError becomes a refusal that names it."""
        given = self._given.get(name)
        if given is None:
            return
        try:
            read(given)
        except ValueError as error:
            raise given.invalid(str(error)) from error
        self._report.append(_entry(given, Fate.TRANSLATED, says or given.option.why))

    def _partition(self) -> Partition:
        partitions = self._site.partitions
        if not partitions:
            raise Refused("you have no virtual cluster to submit to; ask an operator")
        given = self._given.get("partition")
        named = given.value.split(",") if given else [next(iter(partitions))]
        unknown = [name for name in named if name not in partitions]
        if given is not None and unknown:
            words = f"invalid partition specified: {unknown[0]}\n{failed('Invalid partition name specified')}"
            raise given.refused(f"there is no partition {unknown[0]}; there are {', '.join(partitions)}", slurm=words)
        partition = partitions[named[0]]
        vcs = self._account(partition)
        self._spec["vc"] = vcs[0]
        self._env["SLURM_JOB_PARTITION"] = partition.name
        if given is not None:
            more = f"; of several partitions the first is taken, {partition.name}" if len(named) > 1 else ""
            self._report.append(_entry(given, Fate.TRANSLATED, f"vc: {vcs[0]}{more}"))
        return partition

    def _account(self, partition: Partition) -> tuple[str, ...]:
        """The virtual clusters of the partition that belong to the account: the named, the default, or any other."""
        there = {
            name: own
            for name, listed in self._site.accounts.items()
            if (own := tuple(vc for vc in partition.vcs if vc in listed))
        }
        given, default = self._given.get("account"), self._site.default_account
        name = given.value if given else default if default in there else next(iter(there), None)
        if given is not None and name not in self._site.accounts:
            raise given.refused(f"there is no account {name} that you may use", slurm=_NO_ACCOUNT)
        if given is not None and name not in there:
            raise given.refused(
                f"account {name} has no virtual cluster in partition {partition.name}", slurm=_NO_ACCOUNT
            )
        if name is None:
            raise Refused(f"none of your accounts has a virtual cluster in partition {partition.name}")
        self._env["SLURM_JOB_ACCOUNT"] = name
        return there[name]

    def _qos(self) -> Qos:
        given = self._given.get("qos")
        name = given.value if given else self._site.default_qos
        if name is None:
            return Qos()
        if given is not None and name not in self._site.qos:
            raise given.refused(
                f"there is no quality of service {name}; there are {', '.join(self._site.qos)}",
                slurm=failed("Invalid qos specification"),
            )
        qos = self._site.qos[name]
        self._env["SLURM_JOB_QOS"] = name
        plain = Qos()
        if given is not None or (qos.priority, qos.klass) != (plain.priority, plain.klass):
            self._spec |= {"priority": qos.priority, "class": qos.klass}
        if given is not None:
            self._report.append(_entry(given, Fate.TRANSLATED, f"priority: {qos.priority}, class: {qos.klass}"))
        return qos

    def _layout(self, partition: Partition) -> tuple[Layout, set[str]]:
        asked, sized = Asked(), set()
        for name, given in self._given.items():
            try:
                if take(asked, given.option.name, given.value):
                    sized.add(name)
            except ValueError as error:
                raise given.invalid(str(error)) from error
        if "nodelist" in self._given:
            asked.named_nodes = len(self._hosts("nodelist"))
        if not self._given.keys() & set(MEMORY):
            asked.mem_per_cpu = partition.memory_per_cpu_mib
        layout = layout_of(asked, partition.largest)
        if partition.max_nodes is not None and layout.nodes > partition.max_nodes:
            raise Refused(
                f"partition {partition.name} takes jobs of at most {partition.max_nodes} nodes, not {layout.nodes}",
                slurm=failed("Node count specification invalid"),
            )
        if asked.nodes is not None and layout.nodes < asked.nodes[0]:
            self._notes.append(f"It has {layout.ntasks} tasks, so it gets {layout.nodes} nodes")
        return layout, sized

    def _size(self, layout: Layout, partition: Partition) -> dict[str, Any]:
        size: dict[str, Any] = {"nodes": layout.nodes, "cpus": layout.cpus}
        if layout.memory_mib:
            size["memory"] = f"{layout.memory_mib}MiB"
        if layout.gpus:
            kind = self._gpu_type(layout.gpu_type or self._spec.pop("gpu_type", None), partition)
            size["gpus"] = f"{kind}:{layout.gpus}" if kind else layout.gpus
        self._spec.pop("gpu_type", None)
        return size

    def _require_room(self, layout: Layout, size: Mapping[str, Any], partition: Partition) -> None:
        """Return if enough nodes of the partition are large enough, whether they are free or not."""
        named, excluded = self._spec.get("nodes_in"), self._spec.get("exclude_nodes", ())
        fitting = [
            node
            for node in partition.nodes
            if node.gpus >= layout.gpus
            and node.cpus >= layout.cpus
            and node.memory_mib >= (layout.memory_mib or 0)
            and (named is None or node.name in named)
            and node.name not in excluded
        ]
        if len(fitting) < layout.nodes:
            each = f"{size.get('gpus', 0)} GPUs, {layout.cpus} CPUs"
            if layout.memory_mib:
                each += f" and {layout.memory_mib} MiB"
            asked = f"{layout.nodes} nodes with {each} each"
            message = f"{asked} are asked for, and partition {partition.name} has {len(fitting)}"
            raise Refused(message, slurm=_no_room(layout, partition))

    def _gpu_type(self, asked: str | None, partition: Partition) -> str | None:
        """The type as the platform writes it."""
        if asked is None:
            return None
        for kind in partition.gpu_types:
            if kind.lower() == asked.lower():
                return kind
        there = f"there are {', '.join(partition.gpu_types)}" if partition.gpu_types else "it has no GPUs"
        raise Refused(f"partition {partition.name} has no GPUs of type {asked}; {there}", slurm=_NOT_AVAILABLE)

    def _name(self) -> None:
        given = self._given.get("job-name")
        name = given.value if given else "wrap" if "wrap" in self._given else self._submission.name
        self._spec["name"] = name or "sbatch"
        self._read("job-name", lambda _: None)

    def _time(self, partition: Partition, qos: Qos) -> None:
        limit = partition.time_min or partition.max_time_min
        given = self._given.get("time")
        if given is not None:
            self._read("time", lambda given: values.minutes(given.value))
            limit = values.minutes(given.value)
        for what, most, words in (
            ("the quality of service", qos.max_time_min, f"QOSMaxWallDurationPerJobLimit\n{failed(_POLICY)}"),
            (f"partition {partition.name}", partition.max_time_min, failed(_TOO_LONG)),
        ):
            if most is not None and (limit is None or limit > most):
                if given is None:
                    limit = most
                else:
                    raise given.refused(f"{what} allows {_duration(most)} at most", slurm=words)
        if limit is not None:
            self._spec["time"] = _duration(limit)

    def _hosts(self, name: str) -> list[str]:
        given = self._given[name]
        try:
            return values.hosts(given.value)
        except ValueError as error:
            raise given.invalid(str(error)) from error

    def _nodes(self, partition: Partition, layout: Layout) -> None:
        names = [node.name for node in partition.nodes]
        for option, key in (("nodelist", "nodes_in"), ("exclude", "exclude_nodes")):
            if option not in self._given:
                continue
            listed = self._hosts(option)
            unknown = [name for name in listed if name not in names]
            if unknown:
                raise self._given[option].invalid(f"partition {partition.name} has no node {unknown[0]}")
            self._spec[key] = listed
            self._read(
                option,
                lambda _: None,
                says=f"{key}: {', '.join(listed)}",
            )
        self._read("constraint", lambda given: self._constrain(given, partition, layout))
        if "nodelist" in self._given and layout.nodes > len(self._spec["nodes_in"]):
            raise self._given["nodelist"].refused(
                f"the job has {layout.nodes} nodes, and these are the only ones it would run on: name all of them"
            )

    def _constrain(self, given: Given, partition: Partition, layout: Layout) -> None:
        types = [kind for kind in partition.gpu_types if kind.lower() == given.value.lower()]
        if types and layout.gpus and layout.gpu_type is None:
            self._spec["gpu_type"] = types[0]
            return
        found = nodes_with(given.value, partition.nodes, layout.nodes)
        among = self._spec.get("nodes_in", found)
        left = [name for name in found if name in among]
        if len(left) < layout.nodes:
            raise ValueError(
                f"{len(left)} nodes of partition {partition.name} have these features, of {layout.nodes} needed"
            )
        if len(left) < len(partition.nodes):
            self._spec["nodes_in"] = left

    def _when(self) -> None:
        self._read("begin", lambda given: self._spec.update(begin=_iso(moment(given.value, self._now))))
        self._read("hold", lambda _: self._spec.update(hold=True))
        self._read("deadline", self._deadline)
        self._read("array", self._array)
        self._read("dependency", self._depend)

    def _deadline(self, given: Given) -> None:
        at = moment(given.value, self._now)
        if at <= self._now:
            raise ValueError("it has passed")
        self._spec["deadline"] = _iso(at)

    def _array(self, given: Given) -> None:
        if not given.value:
            return
        found = values.array(given.value, self._site.max_array)
        array: dict[str, Any] = {"indices": _ranges(found)}
        if found.parallel is not None:
            array["max_parallel"] = found.parallel
        self._spec["array"] = array

    def _depend(self, given: Given) -> None:
        if not given.value:
            return
        found, any_of = values.dependencies(given.value)
        after = []
        for one in found:
            if one.later_min and any_of:
                raise ValueError("a time after the start of another job (+) cannot be one of several conditions (?)")
            index = "" if one.index is None else f"_{one.index}"
            later = f"+{one.later_min}m" if one.later_min else ""
            named = f"{one.job_id}{index}:{_AFTER.get(one.kind)}{later}"
            after.append("singleton" if one.kind == "singleton" else named)
        self._spec["after"] = ["?".join(after)] if any_of else after

    def _retry_and_mail(self) -> None:
        given = self._given.get("no-requeue")
        if given is not None:
            if given.option.name == "no-requeue":
                self._spec["retry"] = {"max": 0}
            self._report.append(_entry(given, Fate.TRANSLATED, given.option.why))
        self._read("mail-type", self._mail)

    def _mail(self, given: Given) -> None:
        kinds: list[str] = []
        for word in given.value.upper().split(","):
            if word not in _MAIL and word not in _NO_MAIL:
                raise ValueError(f"{word} is no event: write {', '.join((*_MAIL, 'NONE'))}")
            kinds += [kind for kind in _MAIL.get(word, ()) if kind not in kinds]
        self._spec["notify"] = {"mail": kinds, "webhook": []}

    def _run(self, folder: str | None) -> None:
        """Take the folder and the variables of a job that does not run where it was submitted."""
        chdir = self._given.get("chdir")
        if folder is not None:
            return
        if chdir is not None and not chdir.value.startswith("/"):
            self._read("chdir", lambda given: self._spec.update(workdir=below(given.value)), says="workdir")
        self._read("export", self._export)

    def _export(self, given: Given) -> None:
        for name, value in assigned(given.value).items():
            try:
                check_name(name)
            except ValueError as error:
                self._notes.append(f"{name} of {given.text} is not set: {error}")
            else:
                self._env[name] = value

    def _rest(self, sized: set[str]) -> None:
        """Report the options of size, those that are ignored, and those that need no more than a line."""
        self._read(
            "comment", lambda given: self._spec.update(tags={"comment": given.value[:200]} if given.value else {})
        )
        said = {(entry.text, entry.line) for entry in self._report}
        for name, given in self._given.items():
            if (given.text, given.line) in said:
                continue
            fate = Fate.TRANSLATED if name in sized else given.option.fate
            self._report.append(_entry(given, fate, given.option.why))

    def _command(self) -> str:
        wrap = self._given.get("wrap")
        script = f"#!/bin/sh\n{wrap.value}\n" if wrap else self._submission.script
        return command_of(script, self._submission.arguments)


def _no_room(layout: Layout, partition: Partition) -> str:
    """The words of sbatch where the partition has too few nodes of that size."""
    if layout.nodes > len(partition.nodes):
        return failed("Node count specification invalid")
    if all(node.cpus < layout.cpus for node in partition.nodes):
        return f"CPU count per node can not be satisfied\n{_NOT_AVAILABLE}"
    if all(node.memory_mib < (layout.memory_mib or 0) for node in partition.nodes):
        return f"Memory specification can not be satisfied\n{_NOT_AVAILABLE}"
    return _NOT_AVAILABLE


def _with_values(entry: Entry, spec: Mapping[str, Any]) -> Entry:
    """The entry with the values of the keys that it names, where it names only keys."""
    within = {**spec, **{f"batch.{key}": value for key, value in spec["batch"].items()}}
    keys = entry.says.replace(" and ", ", ").split(", ")
    if entry.fate is not Fate.TRANSLATED or not all(key in within for key in keys):
        return entry
    return replace(entry, says=", ".join(f"{key}: {_short(within[key])}" for key in keys))


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _duration(minutes: int) -> str:
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def _ranges(array: values.Array) -> str:
    """The indices as ranges: `0-3,7`, or a single one with its step."""
    indices = array.indices
    if array.step > 1 and len(indices) > 1:
        return f"{indices[0]}-{indices[-1]}:{array.step}"
    parts: list[str] = []
    first = last = indices[0]
    for index in (*indices[1:], None):
        if index == last + 1:
            last = index
            continue
        parts.append(f"{first}" if first == last else f"{first}-{last}")
        if index is not None:
            first = last = index
    return ",".join(parts)
