"""The fields of `sacct`, with the width of each and its value for a record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from muster.slurm.call import Call
from muster.slurm.durations import padded_clock
from muster.slurm.hostlist import fold
from muster.slurm.sacct.records import Record, Resources
from muster.slurm.states import State

DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,"
    "averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,"
    "state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,"
    "maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,"
    "alloctres,tresusageinave,tresusageinmax,tresusageinmaxn,tresusageinmaxt,tresusageinmin,tresusageinminn,"
    "tresusageinmint,tresusageintot,tresusageoutmax,tresusageoutmaxn,tresusageoutmaxt,tresusageoutave,tresusageouttot"
)
# The names in Slurm's spelling, each with its width.
_TABLE = """
Account:10 AdminComment:15 AllocCPUS:10 AllocNodes:10 AllocTRES:10 AssocID:7 AveCPU:10 AveCPUFreq:10 AveDiskRead:14
AveDiskWrite:14 AvePages:10 AveRSS:10 AveVMSize:10 BlockID:16 Cluster:10 Comment:14 Constraints:19 ConsumedEnergy:14
ConsumedEnergyRaw:17 Container:19 CPUTime:10 CPUTimeRAW:10 DBIndex:10 DerivedExitCode:15 Elapsed:10 ElapsedRaw:10
Eligible:19 End:19 ExitCode:8 Flags:19 GID:6 Group:9 JobID:12 JobIDRaw:12 JobName:10 Layout:9 MaxDiskRead:12
MaxDiskReadNode:15 MaxDiskReadTask:15 MaxDiskWrite:12 MaxDiskWriteNode:16 MaxDiskWriteTask:16 MaxPages:8
MaxPagesNode:12 MaxPagesTask:14 MaxRSS:10 MaxRSSNode:10 MaxRSSTask:10 MaxVMSize:10 MaxVMSizeNode:14 MaxVMSizeTask:14
McsLabel:12 MinCPU:10 MinCPUNode:10 MinCPUTask:10 NCPUS:10 NNodes:8 NodeList:15 NTasks:8 Partition:10 Planned:10
PlannedCPU:10 PlannedCPURAW:13 Priority:10 QOS:10 QOSRAW:6 Reason:22 ReqCPUFreq:10 ReqCPUFreqGov:13 ReqCPUFreqMax:13
ReqCPUFreqMin:13 ReqCPUS:8 ReqMem:10 ReqNodes:8 ReqTRES:10 Reservation:20 ReservationId:8 Reserved:10 Restarts:8
ResvCPU:10 ResvCPURAW:10 Start:19 State:10 Submit:19 SubmitLine:20 Suspended:10 SystemComment:15 SystemCPU:10
Timelimit:10 TimelimitRaw:10 TotalCPU:10 TRESUsageInAve:14 TRESUsageInMax:14 TRESUsageInMaxNode:18
TRESUsageInMaxTask:18 TRESUsageInMin:14 TRESUsageInMinNode:18 TRESUsageInMinTask:18 TRESUsageInTot:14
TRESUsageOutAve:15 TRESUsageOutMax:15 TRESUsageOutMaxNode:19 TRESUsageOutMaxTask:19 TRESUsageOutMin:15
TRESUsageOutMinNode:19 TRESUsageOutMinTask:19 TRESUsageOutTot:15 UID:6 User:9 UserCPU:10 WCKey:10 WCKeyID:10
WorkDir:20
"""
_WIDTHS: Mapping[str, int] = {name: int(width) for name, width in (item.split(":") for item in _TABLE.split())}
NAMES = tuple(_WIDTHS)
_SPELLED = {name.lower(): name for name in NAMES}
TIMES = frozenset({"Eligible", "End", "Start", "Submit"})
_LEFT = frozenset({"JobID", "JobIDRaw", "DBIndex"})
_UNITS = "KMGTP"


@dataclass(frozen=True, slots=True)
class Printing:
    """The way in which values are printed."""

    call: Call
    now: datetime
    units: str = ""
    """The unit of memory; empty: the largest in which the amount is a whole number."""

    def time(self, at: datetime | None, missing: str) -> str:
        return self.call.moment(at, missing=missing)


def fields_of(name: str) -> Sequence[str] | None:
    """The fields that a name means, whatever its case: the first one that begins so, or `all`; None if none does."""
    lower = name.lower()
    if lower in _SPELLED:
        return (_SPELLED[lower],)
    if "all".startswith(lower):
        return NAMES
    return next(([field] for known, field in _SPELLED.items() if known.startswith(lower)), None)


def width_of(field: str) -> int:
    """Its width, in characters, where the format names none."""
    return _WIDTHS[field]


def is_left(field: str) -> bool:
    """True if values of the field are padded on their right."""
    return field in _LEFT


def memory(mib: int, units: str) -> str:
    """An amount of memory."""
    if units:
        amount = 1024 * mib / 1024 ** _UNITS.index(units)
        return f"{int(amount) if amount == int(amount) else f'{amount:.2f}'}{units}"
    power = 1
    while mib and mib % 1024 == 0 and power < len(_UNITS) - 1:
        mib, power = mib // 1024, power + 1
    return f"{mib}{_UNITS[power]}"


def _tres(found: Resources, printing: Printing, *, billing: bool) -> str:
    if not found.nodes:
        return ""
    parts = [f"billing={found.cpus}"] if billing else []
    parts.append(f"cpu={found.cpus}")
    if found.gpus:
        parts.append(f"gres/gpu={found.gpus}")
    parts += [f"mem={memory(found.memory_mib, printing.units)}", f"node={found.nodes}"]
    return ",".join(parts)


_Value = Callable[[Record, Printing], str]


def _of_job(value: _Value) -> _Value:
    """A value that steps lack."""
    return lambda one, printing: "" if one.step else value(one, printing)


def _with_step(number: str, one: Record) -> str:
    return f"{number}.{one.step}" if one.step else number


def _cpus(one: Record) -> int:
    return one.given.cpus or (0 if one.step else one.asked.cpus)


def _word(name: str, otherwise: Callable[[Record], str]) -> _Value:
    """A word of the script, and what stands for it in jobs without one."""
    return lambda one, _printing: one.words.get(name) or otherwise(one)


def _state(one: Record, _printing: Printing) -> str:
    if one.state is State.CANCELLED and not one.step:
        return f"CANCELLED by {one.job.owner.uid}"
    return {State.CONFIGURING: State.RUNNING, State.COMPLETING: State.RUNNING}.get(one.state, one.state).name


def _code(status: tuple[int, int]) -> str:
    return f"{status[0]}:{status[1]}"


def _limit_min(one: Record) -> int | None:
    limit_s = one.job.time_limit_s
    return None if limit_s is None else math.ceil(limit_s / 60)


def _waited_s(one: Record, printing: Printing) -> float:
    until = one.start or one.end or printing.now
    return (until - one.eligible).total_seconds() if one.eligible else 0


_VALUES: Mapping[str, _Value] = {
    "Account": _word("account", lambda one: one.job.vc.name),
    "AllocCPUS": lambda one, _: str(_cpus(one)),
    "AllocNodes": lambda one, _: str(one.given.nodes),
    "AllocTRES": lambda one, printing: _tres(one.given, printing, billing=not one.step),
    "Cluster": _word("cluster", lambda _: "muster"),
    "Comment": _of_job(lambda one, _: str(one.job.tags.get("comment", ""))),
    "CPUTime": lambda one, printing: padded_clock(one.given.cpus * one.ran_s(printing.now)),
    "CPUTimeRAW": lambda one, printing: str(one.given.cpus * one.ran_s(printing.now)),
    "DerivedExitCode": _of_job(lambda _one, _printing: "0:0"),
    "Elapsed": lambda one, printing: padded_clock(one.ran_s(printing.now)),
    "ElapsedRaw": lambda one, printing: str(one.ran_s(printing.now)),
    "Eligible": lambda one, printing: printing.time(one.start if one.step else one.eligible, "Unknown"),
    "End": lambda one, printing: printing.time(one.end, "Unknown"),
    "ExitCode": lambda one, _: _code(one.status),
    "GID": _of_job(lambda one, _: str(one.job.owner.uid)),
    "Group": _of_job(lambda one, _: one.job.owner.username),
    "JobID": lambda one, _: _with_step(one.number, one),
    "JobIDRaw": lambda one, _: _with_step(str(one.job.group_id if one.indices else one.job.pk), one),
    "JobName": lambda one, _: one.step or one.job.name,
    "NCPUS": lambda one, _: str(_cpus(one)),
    "NNodes": lambda one, _: str(one.given.nodes or one.asked.nodes),
    "NodeList": lambda one, _: fold(rank.node for rank in one.ranks) or "None assigned",
    "NTasks": lambda one, _: "1" if one.step else "",
    "Partition": _of_job(_word("partition", lambda one: one.job.pool.name)),
    "Planned": _of_job(lambda one, printing: padded_clock(_waited_s(one, printing))),
    "Priority": _of_job(lambda one, _: str(one.job.priority)),
    "QOS": _of_job(_word("qos", lambda one: one.words.get("priority", "normal"))),
    "Reason": _of_job(lambda one, _: one.reason),
    "ReqCPUS": lambda one, _: str(_cpus(one)),
    "ReqMem": _of_job(lambda one, printing: memory(one.asked.memory_mib, printing.units)),
    "ReqNodes": lambda one, _: str(len(one.ranks) if one.step else one.asked.nodes),
    "ReqTRES": _of_job(lambda one, printing: _tres(one.asked, printing, billing=True)),
    "Reserved": _of_job(lambda one, printing: padded_clock(_waited_s(one, printing))),
    "Restarts": _of_job(lambda one, _: str(one.restarts)),
    "Start": lambda one, printing: printing.time(one.start, "None" if one.end else "Unknown"),
    "State": _state,
    "Submit": lambda one, printing: printing.time(one.start if one.step else one.submit, "Unknown"),
    "Suspended": lambda _one, _: "00:00:00",
    "Timelimit": _of_job(
        lambda one, _: "UNLIMITED" if (limit := _limit_min(one)) is None else padded_clock(60 * limit)
    ),
    "TimelimitRaw": _of_job(lambda one, _: str(_limit_min(one) or "")),
    "UID": _of_job(lambda one, _: str(one.job.owner.uid)),
    "User": _of_job(lambda one, _: one.job.owner.username),
    "WorkDir": _of_job(_word("folder", lambda one: one.words.get("submit_folder", ""))),
}


def value_of(field: str, record: Record, printing: Printing) -> str:
    """The value of a field; empty for one of which nothing is known."""
    value = _VALUES.get(field)
    return value(record, printing) if value else ""
