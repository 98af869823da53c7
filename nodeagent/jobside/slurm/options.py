"""The options of `srun` inside a job, and the variables by which they are set too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# The names with their short forms; `=` takes a value, `?` may take one.
_TAKEN = """
    chdir=D cpus-per-task=c cpus-per-gpu= distribution=m error=e exact exclude=x exclusive? export= gpus=G
    gpus-per-node= gpus-per-task= gpu-bind= gres= help=h immediate?I input=i job-name=J jobid= kill-on-bad-exit?K
    label=l mem= mem-per-cpu= mem-per-gpu= mpi= nodelist=w nodes=N ntasks=n ntasks-per-gpu= ntasks-per-node=
    open-mode= output=o overcommit=O overlap quiet=Q relative=r tasks-per-node= time=t unbuffered=u usage verbose=v
    version=V wait=W whole
"""
_FLAGS = {"help", "label", "overcommit", "quiet", "unbuffered", "verbose", "version"}
IGNORED = """
    account=A accel-bind= acctg-freq= bb= bbf= begin=b comment= compress? constraint=C contiguous core-spec=S
    cores-per-socket= cpu-bind= cpu-freq= deadline= debugger-test delay-boot= dependency=d disable-status=X
    extra-node-info=B gpu-freq= gres-flags= hint= hold=H interactive licenses=L mail-type= mail-user= mcs-label=
    mem-bind= mincpus= msg-timeout= network= nice? no-kill=k ntasks-per-core= ntasks-per-socket= oversubscribe=s
    partition=p power= preserve-env=E priority= profile= propagate? qos=q reservation= slurmd-debug= sockets-per-node=
    spread-job switches= task-epilog= task-prolog= thread-spec= threads=T threads-per-core= time-min= tmp=
    use-min-nodes wckey= x11? epilog= prolog= nodefile=F
"""
"""Options that change nothing about a step here: they speak of a new job, or of sockets, cores and threads."""
_IGNORED_FLAGS = {"disable-status", "hold", "no-kill", "oversubscribe", "preserve-env"}
REFUSED = {
    "bcast": "programs are not copied to nodes; name one that is there",
    "cluster-constraint": "there is one cluster",
    "clusters": "there is one cluster",
    "container": "name the image in the spec of the job",
    "export-file": "name the variables with --export",
    "gid": "a step runs as the user of the job",
    "gpus-per-socket": "write --gpus-per-node",
    "het-group": "No directives to start application on any available hetjob components",
    "multi-prog": "write a script that looks at SLURM_PROCID",
    "no-allocate": "must specify a node list with -Z, --no-allocate.",
    "pty": "a batch script has no terminal; open one with muster shell",
    "reboot": "nodes are set up by operators",
    "send-libs": "programs are not copied to nodes; name one that is there",
    "uid": "a step runs as the user of the job",
}
"""Options that no step here has, and why."""
_REFUSED = """
    bcast? cluster-constraint= clusters=M container= export-file= gid= gpus-per-socket= het-group= multi-prog
    no-allocate=Z pty? reboot send-libs? uid=
"""
_VARIABLES = {
    "chdir": ("SLURM_WORKING_DIR",),
    "cpus-per-task": ("SRUN_CPUS_PER_TASK",),
    "distribution": ("SLURM_DISTRIBUTION",),
    "error": ("SLURM_STDERRMODE",),
    "exact": ("SLURM_EXACT",),
    "export": ("SRUN_EXPORT_ENV", "SLURM_EXPORT_ENV"),
    "gpu-bind": ("SLURM_GPU_BIND",),
    "gpus": ("SLURM_GPUS",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE",),
    "gpus-per-task": ("SLURM_GPUS_PER_TASK",),
    "gres": ("SLURM_GRES",),
    "input": ("SLURM_STDINMODE",),
    "kill-on-bad-exit": ("SLURM_KILL_BAD_EXIT",),
    "label": ("SLURM_LABELIO",),
    "mem": ("SLURM_MEM_PER_NODE",),
    "mem-per-cpu": ("SLURM_MEM_PER_CPU",),
    "mem-per-gpu": ("SLURM_MEM_PER_GPU",),
    "mpi": ("SLURM_MPI_TYPE",),
    "nodes": ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-gpu": ("SLURM_NTASKS_PER_GPU",),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "open-mode": ("SLURM_OPEN_MODE",),
    "output": ("SLURM_STDOUTMODE",),
    "overcommit": ("SLURM_OVERCOMMIT",),
    "overlap": ("SLURM_OVERLAP",),
    "unbuffered": ("SLURM_UNBUFFEREDIO",),
    "wait": ("SLURM_WAIT",),
}
_RULES_OUT = {
    "mem": ("mem-per-cpu", "mem-per-gpu"),
    "mem-per-cpu": ("mem", "mem-per-gpu"),
    "mem-per-gpu": ("mem", "mem-per-cpu"),
    "gpus": ("gres",),
    "gres": (),
}
"""An option on the command line drops these from the environment."""
_MEMORY = re.compile(r"([0-9]+)([KMGT]?)B?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}


class Wrong(Exception):
    """Options that srun refuses: the lines that it prints, and its exit code."""

    def __init__(self, *told: str, code: int = 1) -> None:
        super().__init__(*told)
        self.code = code


@dataclass(frozen=True)
class _Option:
    name: str
    value: str
    """`=` it takes a value, `?` it may take one, empty: none."""


def _table(text: str, flags: set[str]) -> Iterator[tuple[str, str, str]]:
    for word in text.split():
        found = re.fullmatch(r"([a-z0-9-]+)([=?]?)([A-Za-z]?)", word)
        if found:
            yield found[1], "" if found[1] in flags else found[2], found[3]


_ALL = [*_table(_TAKEN, _FLAGS), *_table(IGNORED, _IGNORED_FLAGS), *_table(_REFUSED, set())]
_LONG = {name: _Option(name, value) for name, value, _ in _ALL}
_SHORT = {short: _LONG[name] for name, _, short in _ALL if short}


@dataclass(frozen=True)
class Parsed:
    """The command line of srun."""

    given: Mapping[str, str]
    """The options, of the command line or else of the environment; a flag is `1`."""
    named: frozenset[str]
    """Those of the command line."""
    command: Sequence[str]

    def number(self, name: str) -> int | None:
        """The number of an option; None where it is not given."""
        return count(name, self.given[name]) if name in self.given else None


def parse(words: Sequence[str], environment: Mapping[str, str]) -> Parsed:
    """The options of a command line and of the environment.

    Raises:
        Wrong: as srun refuses them.
    """
    named: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        for option, value in _long(word, rest) if word.startswith("--") else _short(word, rest):
            if option.name in REFUSED:
                if option.name in ("no-allocate", "het-group"):
                    raise Wrong("error: " + REFUSED[option.name])
                raise Wrong("error: --{}: {}".format(option.name, REFUSED[option.name]))
            name = "ntasks-per-node" if option.name == "tasks-per-node" else option.name
            named[name] = value
    given = dict(named)
    dropped = {gone for name in named for gone in _RULES_OUT.get(name, ())}
    for name, variables in _VARIABLES.items():
        value = next((environment[one] for one in variables if environment.get(one)), "")
        if value and name not in named and name not in dropped:
            given[name] = value
    return Parsed(given, frozenset(named), rest)


def _long(word: str, rest: list[str]) -> Iterator[tuple[_Option, str]]:
    name, has_value, value = word[2:].partition("=")
    fitting = [name] if name in _LONG else sorted(one for one in _LONG if one.startswith(name))
    if not fitting:
        raise _usage("unrecognized option '{}'".format(word if not has_value else "--" + name))
    if len(fitting) > 1:
        possible = " ".join("'--{}'".format(one) for one in fitting)
        raise _usage("option '{}' is ambiguous; possibilities: {}".format(word, possible))
    option = _LONG[fitting[0]]
    if has_value and not option.value:
        raise _usage("option '--{}' doesn't allow an argument".format(option.name))
    if not has_value and option.value == "=":
        if not rest:
            raise _usage("option '--{}' requires an argument".format(option.name))
        value = rest.pop(0)
    yield option, value if has_value or option.value == "=" else "1"


def _short(word: str, rest: list[str]) -> Iterator[tuple[_Option, str]]:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = _SHORT.get(letter)
        if option is None:
            raise _usage("invalid option -- '{}'".format(letter))
        if not option.value:
            yield option, "1"
            continue
        if option.value == "=" and not letters:
            if not rest:
                raise _usage("option requires an argument -- '{}'".format(letter))
            letters = rest.pop(0)
        yield option, letters or "1"
        return


def _usage(told: str) -> Wrong:
    return Wrong(told, 'Try "srun --help" for more information', code=255)


def count(name: str, text: str) -> int:
    """A number of at least 1.

    Raises:
        Wrong: it is none.
    """
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise Wrong('error: Invalid numeric value "{}" for --{}.'.format(text, name))
    return int(text)


def nodes(text: str) -> tuple[int, int]:
    """The least and the most nodes of `2` or `1-4`.

    Raises:
        Wrong: it is none of these.
    """
    found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text)
    if found is None or not 0 < int(found[1]) <= int(found[2] or found[1]):
        raise Wrong('error: "{}" is not a valid node count'.format(text), code=255)
    return int(found[1]), int(found[2] or found[1])


def mebibytes(name: str, text: str) -> int:
    """A size of memory in MiB.

    Raises:
        Wrong: it is none.
    """
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise Wrong("error: Invalid --{} specification".format(name), code=255)
    return int(int(found[1]) * _MIB[found[2].upper()])


def gpus(text: str) -> int:
    """A number of GPUs: `2` or `a100:2`; the type is that of the job.

    Raises:
        Wrong: it is none.
    """
    number = text.rpartition(":")[2]
    if not number.isdigit():
        number = "1" if number else ""
    if not number:
        raise Wrong("error: Invalid generic resource (gres) specification")
    return int(number)


def gres(text: str) -> int:
    """The GPUs of `gpu:2`, `gpu:a100:2` or `gpu`; 0 for `none`.

    Raises:
        Wrong: it names anything else.
    """
    if text.lower() == "none":
        return 0
    total = 0
    for part in text.split(","):
        words = part.replace("gres/", "", 1).replace("=", ":").split(":")
        if words[0] != "gpu" or len(words) > 3:
            raise Wrong("error: Invalid generic resource (gres) specification")
        number = words[-1] if len(words) > 1 else "1"
        total += int(number) if number.isdigit() else 1
    return total


def minutes(text: str) -> float | None:
    """A time limit in minutes, of `M`, `M:S`, `H:M:S` or with days before it; None = none.

    Raises:
        Wrong: it is none of these.
    """
    if text.upper() in ("INFINITE", "UNLIMITED", "0"):
        return None
    found = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?", text)
    if found is None:
        raise Wrong("error: Invalid --time specification", code=255)
    days, parts = int(found[1] or 0), [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is not None:
        hours, mins, seconds = (*parts, 0, 0)[:3]
        return days * 1440 + hours * 60 + mins + seconds / 60
    if len(parts) == 3:
        return parts[0] * 60 + parts[1] + parts[2] / 60
    return parts[0] + (parts[1] / 60 if len(parts) == 2 else 0)
