"""The options of sbatch: their spellings, and what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.sbatch.directives import Directive, Refused, failed


class Fate(StrEnum):
    """The treatment of an option."""

    TRANSLATED = "translated"
    IGNORED = "ignored"
    REFUSED = "refused"


class Takes(StrEnum):
    """Whether an option has a value."""

    NOTHING = "nothing"
    VALUE = "value"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of sbatch. `why`: what it becomes, the reason for ignoring or refusing it."""

    name: str
    fate: Fate
    why: str
    short: str = ""
    takes: Takes = Takes.VALUE
    variable: str = ""
    """The environment variable that sets it, without `SBATCH_`."""

    @property
    def values(self) -> str:
        """The pattern of the values of an option that is ignored, by which Slurm refuses others; empty for any."""
        return _VALUES.get(self.name, "")


class Source(StrEnum):
    """The source of an option; later ones win."""

    SCRIPT = "script"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Given:
    """An option with its value (empty if it has none), as it was written, and where."""

    option: Option
    value: str
    text: str
    source: Source
    line: int | None = None

    def refused(self, message: str, *, slurm: str = "", code: int = 1) -> Refused:
        """The refusal of its value; `slurm`: in the words of sbatch."""
        return Refused(f"{self.text}: {message}", self.line, slurm=slurm, code=code)

    def invalid(self, message: str) -> Refused:
        """The refusal of a value that sbatch cannot read."""
        name = self.option.name
        if name in _COUNTED:
            return self.refused(message, slurm=f'Invalid numeric value "{self.value}" for --{name}.')
        if name in _READ_BY_CONTROLLER:
            return self.refused(message, slurm=failed(_READ_BY_CONTROLLER[name]))
        return self.refused(message, slurm=f"Invalid --{name} specification", code=255)


_ONE_LAYOUT = "Muster does not choose sockets, cores or threads"
_BOUND = "a task sees the GPUs and CPUs of its job on the node"
_OPERATORS = "only operators of a cluster may do that, and not by a script"
_ADMIN = "nodes are set up by operators"

_COUNTED = frozenset(
    {"cpus-per-gpu", "cpus-per-task", "mincpus", "ntasks", "ntasks-per-gpu", "ntasks-per-node", "tasks-per-node"}
)
_READ_BY_CONTROLLER = {
    "array": "Invalid job array specification",
    "constraint": "Invalid feature specification",
    "dependency": "Job dependency problem",
    "nodelist": "Invalid node name specified",
    "exclude": "Invalid node name specified",
}
_VALUES = {
    "distribution": r"(block|cyclic|arbitrary|plane=\d+|\*|pack|nopack)([:,](block|cyclic|fcyclic|\*|pack|nopack))*",
    "gpu-bind": r"(verbose,)?(closest|none|single:\d+|per_task:\d+|map_gpu:[\d,x*]+|mask_gpu:[\da-fx,*]+)",
    "gres-flags": r"(disable-binding|enforce-binding)",
    "hint": r"(compute_bound|memory_bound|(no)?multithread|help)",
    "kill-on-invalid-dep": r"(yes|no)",
    "mem-bind": r"((quiet|verbose|sort|nosort|prefer|rank|local|none|map_mem:[\d,x]+|mask_mem:[\da-fx,]+),?)+",
    "no-kill": r"(off|)",
    "open-mode": r"(a|t|append|truncate)",
    "switches": r"\d+(@[\d:-]+)?",
    "wait-all-nodes": r"[01]",
}


def _rows(fate: Fate, rows: str, why: str = "") -> list[Option]:
    """A row for each line: `name[=|=?] [-s] [VARIABLE]: reason`; `=` takes a value, `=?` may take one."""
    found = []
    for row in filter(None, map(str.strip, rows.splitlines())):
        head, _, own = row.partition(": ")
        name, *rest = head.rstrip(":").split()
        takes = Takes.MAYBE if name.endswith("=?") else Takes.VALUE if name.endswith("=") else Takes.NOTHING
        short = next((word[1] for word in rest if word.startswith("-")), "")
        variable = next((word for word in rest if not word.startswith("-")), "")
        found.append(Option(name.rstrip("=?"), fate, own or why, short, takes, variable))
    return found


OPTIONS: tuple[Option, ...] = (
    *_rows(
        Fate.TRANSLATED,
        """
        account= -A ACCOUNT: vc: that virtual cluster, or one of that tenant
        array= -a ARRAY_INX: array
        begin= -b: begin
        chdir= -D: batch.folder
        comment=: a tag
        constraint= -C CONSTRAINT: nodes_in with the nodes that have these features, or the type in gpus
        cpus-per-gpu= CPUS_PER_GPU: cpus
        cpus-per-task= -c: cpus
        deadline=: deadline
        dependency= -d: after
        error= -e ERROR: batch.error
        exclude= -x: exclude_nodes
        exclusive=? EXCLUSIVE: all GPUs and CPUs of each node
        export= EXPORT: batch.export, and the variables that it names
        gpus= -G GPUS: gpus and nodes
        gpus-per-node= GPUS_PER_NODE: gpus
        gpus-per-task= GPUS_PER_TASK: gpus
        gres= GRES: gpus
        hold -H: hold
        input= -i INPUT: batch.input
        job-name= -J JOB_NAME: name
        kill-on-invalid-dep=: with no, or without it, a job waits on if a dependency can never be met
        mail-type=: notify
        mem= MEM_PER_NODE: memory
        mem-per-cpu= MEM_PER_CPU: memory
        mem-per-gpu= MEM_PER_GPU: memory
        mincpus=: cpus
        no-requeue NO_REQUEUE: retry
        nodelist= -w: nodes_in
        nodes= -N: nodes
        ntasks= -n: cpus and batch.tasks
        ntasks-per-gpu=: cpus and batch.tasks
        ntasks-per-node=: cpus and batch.tasks
        open-mode= OPEN_MODE: batch.open_mode
        output= -o OUTPUT: batch.output
        overcommit -O OVERCOMMIT: cpus
        parsable: the number alone is printed
        partition= -p PARTITION: vc: a virtual cluster in the pool of that name
        qos= -q QOS: priority, or class
        quiet -Q: no notes are printed
        requeue REQUEUE: the default of retry
        signal= SIGNAL: batch.signal
        tasks-per-node=: cpus and batch.tasks
        test-only: nothing is submitted
        time= -t TIMELIMIT: time
        verbose -v: all is printed that there is
        wait -W WAIT: the command waits for the job
        wrap=: command
        """,
    ),
    *_rows(
        Fate.IGNORED,
        """
        acctg-freq= ACCTG_FREQ: samples are taken every few seconds
        bb= BURST_BUFFER: there are no burst buffers
        bbf=: there are no burst buffers
        get-user-env=? GET_USER_ENV: a job without the environment of its submitter has that of a login on the node
        ignore-pbs IGNORE_PBS: lines of PBS and LSF are never read
        mail-user=: mail goes to the address of the account in Muster
        network= NETWORK: containers have the pool's network
        nice=?: priorities are four classes; see qos
        no-kill=? -k NO_KILL: a gang that loses a node is started again as a whole
        oversubscribe -s: jobs share GPUs where the spec says share
        priority=: priorities are four classes; see qos
        profile= PROFILE: use of GPUs, CPUs and memory is always recorded
        use-min-nodes USE_MIN_NODES: a range of nodes becomes its least
        wait-all-nodes= WAIT_ALL_NODES: a gang always starts on all nodes together
        wckey= WCKEY: use is counted by tenant, virtual cluster, owner and tag
        """,
    ),
    *_rows(
        Fate.IGNORED,
        """
        core-spec= -S CORE_SPEC
        cores-per-socket=
        cpu-freq= CPU_FREQ_REQ
        distribution= -m DISTRIBUTION
        extra-node-info= -B
        gpu-bind= GPU_BIND
        gpu-freq= GPU_FREQ
        gres-flags= GRES_FLAGS
        hint= HINT
        mem-bind= MEM_BIND
        ntasks-per-core=
        ntasks-per-socket=
        power= POWER
        propagate=?
        sockets-per-node=
        spread-job SPREAD_JOB
        switches= REQ_SWITCH
        contiguous
        thread-spec=
        threads-per-core= THREADS_PER_CORE
        """,
        f"{_ONE_LAYOUT}; {_BOUND}",
    ),
    *_rows(
        Fate.REFUSED,
        """
        batch=: a script runs on the first node of the job
        cluster-constraint= CLUSTER_CONSTRAINT: there is one cluster
        clusters= -M CLUSTERS: there is one cluster
        container= CONTAINER: write image in a spec
        delay-boot= DELAY_BOOT: @admin
        export-file=: name the variables with export
        gid=: @operators
        gpus-per-socket=: write gpus-per-node
        licenses= -L: there are no licenses to count
        mcs-label=: there are no MCS labels; tenants are kept apart
        nodefile= -F: write nodelist
        reboot: @admin
        reservation= RESERVATION: there are no reservations; a virtual cluster's quota is set aside for its tenant
        time-min=: a limit does not shrink; write the least with time
        tmp=: disk space is not a resource of a job
        uid=: @operators
        """.replace("@operators", _OPERATORS).replace("@admin", _ADMIN),
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}
_BY_SHORT = {option.short: option for option in OPTIONS if option.short}
_BY_VARIABLE = {f"SBATCH_{option.variable}": option for option in OPTIONS if option.variable}


def given_in(directives: Sequence[Directive]) -> list[Given]:
    """The options of the directives, in order.

    Raises:
        Refused: an option is unknown, or a directive has words that belong to none.
    """
    found = []
    for directive in directives:
        given, rest = parse(directive.words, source=Source.SCRIPT, line=directive.line)
        if rest:
            words = f"Invalid directive found in batch script: {rest[0]}"
            raise Refused(f"{rest[0]} belongs to no option of this directive", directive.line, slurm=words, code=255)
        found += given
    return found


def given_by(environment: Mapping[str, str]) -> list[Given]:
    """The options that `SBATCH_*` variables set; a flag is set by any value."""
    found = []
    for name, value in environment.items():
        option = _BY_VARIABLE.get(name)
        if option is not None:
            given = "" if option.takes is Takes.NOTHING else value
            found.append(Given(option, given, f"{name}={value}", Source.ENVIRONMENT))
    return found


def parse(words: Sequence[str], *, source: Source, line: int | None = None) -> tuple[list[Given], list[str]]:
    """The options among the words, and the words from the first one that is no option.

    Names of options may be cut as long as they are unique, and short ones put together, as getopt_long allows it.
    """
    found: list[Given] = []
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            return found, rest[1:]
        if word == "-" or not word.startswith("-"):
            return found, rest
        rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = _named(name, word, line)
            text = word
            if option.takes is Takes.NOTHING and equals:
                raise _unread(
                    f"option '--{option.name}' doesn't allow an argument", f"--{option.name} has no value", line
                )
            if option.takes is Takes.VALUE and not equals:
                if not rest:
                    raise _unread(
                        f"option '--{option.name}' requires an argument", f"--{option.name} needs a value", line
                    )
                value = rest.pop(0)
                text = f"{word} {value}"
            found.append(Given(option, value, text, source, line))
        else:
            _take_short(word, rest, found, source, line)
    return found, []


def _take_short(word: str, rest: list[str], found: list[Given], source: Source, line: int | None) -> None:
    """Take the options of a word such as -HJname; the value of the last one may be the next word."""
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = _BY_SHORT.get(letter)
        if option is None:
            raise _unread(f"invalid option -- '{letter}'", f"there is no option -{letter}", line)
        if option.takes is not Takes.VALUE:
            found.append(Given(option, "", f"-{letter}", source, line))
            continue
        if not letters and not rest:
            raise _unread(f"option requires an argument -- '{letter}'", f"-{letter} needs a value", line)
        text = f"-{letter}{letters}" if letters else f"-{letter} {rest[0]}"
        found.append(Given(option, letters or rest.pop(0), text, source, line))
        return


def _unread(words: str, message: str, line: int | None) -> Refused:
    """The refusal of options that cannot be read, with the words of getopt_long."""
    return Refused(message, line, slurm=f'sbatch: {words}\nTry "sbatch --help" for more information', code=255)


def _named(name: str, word: str, line: int | None) -> Option:
    option = _BY_NAME.get(name)
    if option is not None:
        return option
    alike = sorted(known for known in _BY_NAME if known.startswith(name)) if name else []
    if len(alike) > 1:
        possible = " ".join(f"'--{one}'" for one in alike)
        words = f"option '{word}' is ambiguous; possibilities: {possible}"
        raise _unread(words, f"--{name} may be any of {', '.join(f'--{one}' for one in alike)}", line)
    if not alike:
        raise _unread(f"unrecognized option '{word}'", f"there is no option --{name}", line)
    return _BY_NAME[alike[0]]
