"""The simulator's command line: parsed and checked before anything is simulated.

`python -m scheduler.sim` and `muster simulate` share these options; docs/operator/simulator.md lists them.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import compose
from scheduler.engine.policy import POLICIES, InformedPolicy, Need
from scheduler.placement import PLACEMENTS
from scheduler.policies.drf import Drf
from scheduler.registry import ConfigError, Registry
from scheduler.sim.applications import ApplicationError
from scheduler.sim.cluster import ClusterError, ClusterSpec, load_cluster, spelled_as_in
from scheduler.sim.failures import Failures
from scheduler.sim.generators import generate, generators
from scheduler.sim.learned import has_owners
from scheduler.sim.options import Options, Oracle
from scheduler.sim.readers import Peer, ReadOptions, detect, formats, read_trace
from scheduler.sim.screening import Screening
from scheduler.sim.start import UNKNOWN_S, Start, StartError, read_start
from scheduler.sim.trace import Trace, TraceError, TraceJob

_CLOSERS = {"[": "]", "{": "}"}
# What a pool has told already, or only a trace tells.
_OF_A_TRACE = (
    *("trace", "generate", "format", "cluster", "peer", "one_node", "share", "opportunistic", "rate_noise"),
    *("failures", "screening", "throughputs", "read", "start_s", "end_s", "limit"),
)
# Fields that the command line sets by options of its own.
_READ_ELSEWHERE = frozenset({"skip_bad", "start_s", "end_s", "limit"})

T = TypeVar("T")


class UsageError(ValueError):
    """An invalid command line; the message begins with the option at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options as given; None and empty: not given."""

    trace: Path | None = None
    snapshot: Path | None = None
    generate: str | None = None
    format: str | None = None
    policies: Sequence[str] = ()
    cluster: str | None = None
    placement: str | None = None
    admission: str | None = None
    peer: bool | None = None  # None: if the format is named and its authors have a simulator
    round_s: float | None = None
    first_round_s: float | None = None
    restart_s: float | None = None
    first_start_s: float | None = None
    grace_s: float = 0.0
    interference: float = 0.0
    spread_penalty: float = 0.0
    rack_penalty: float = 0.0
    share: bool = False
    one_node: bool = False
    opportunistic: bool = False
    rate_noise: float = 0.0
    oracle: str | None = None  # None: learned where the trace has owners and the policy reads run times
    failures: str = Failures.NONE.value
    retries: int = 1
    retry_hopeless: bool = True
    retry_after_s: float = 0.0
    screening: str | None = None
    throughputs: Path | None = None
    read: str | None = None
    start_s: float = 0.0
    end_s: float = math.inf
    limit: int | None = None
    skip_bad: bool = False
    unknown_s: float = UNKNOWN_S
    seed: int = 0


# Arguments that go into the options of each run as they are.
_ASSUMPTIONS = {each.name for each in fields(Options)} & {each.name for each in fields(Arguments)}


@dataclass(frozen=True, slots=True)
class Study:
    """Runs ready to simulate: one trace on one cluster, with the name and the options of each run."""

    trace: Trace
    cluster: ClusterSpec
    runs: tuple[tuple[str, Options], ...]
    notes: tuple[str, ...] = ()  # remarks for the reader of the figures
    start: Start | None = None  # where the simulation goes on from


def prepare(arguments: Arguments) -> Study:
    """The study of a command line.

    Raises:
        UsageError: it names the first wrong option.
    """
    _check_numbers(arguments)
    if arguments.snapshot is not None:
        return _go_on(arguments, arguments.snapshot)
    peer = _peer(arguments)
    runs = _runs(arguments, lambda policy: Options.like(peer, policy) if peer else Options(policy=policy))
    where = arguments.cluster or (peer.cluster if peer else None)
    if where is None:
        raise UsageError("--cluster: give the GPUs, such as V100:2x4,P100:4x4, or a YAML file")
    cluster = _as_option_error("--cluster", load_cluster, where)
    trace = _trace(arguments, peer)
    cluster = spelled_as_in(trace, cluster)
    notes = list(_left_out(trace))
    infeasible = [(job, reason) for job in trace.jobs if (reason := infeasible_reason(job, cluster))]
    if infeasible:
        job, reason = infeasible[0]
        if not arguments.skip_bad:
            raise UsageError(f"--trace: {_place(trace, job)}: {reason}")
        left_out = {job.id for job, _ in infeasible}
        trace = replace(trace, jobs=tuple(job for job in trace.jobs if job.id not in left_out))
        notes.append(f"{len(infeasible)} jobs left out that the cluster can never run; {_place(trace, job)}: {reason}")
    quotas = _as_option_error("--cluster", cluster.quotas_for, trace)
    _check_cells(runs[0][1], quotas, trace)  # all runs have one admission
    if arguments.oracle is None and arguments.trace is not None and has_owners(trace):
        runs = [(label, _as_learned(run)) for label, run in runs]
    notes += [note for label, run in runs if (note := _single_group(label, run, trace))]
    return Study(trace, cluster, tuple((label, replace(run, quotas=quotas)) for label, run in runs), tuple(notes))


def named(option: str, text: str) -> tuple[str, dict[str, object]]:
    """The name and the parameters in `NAME[:key=value,…]`.

    A value is JSON if it can be, else text; a list is JSON or `[a;b]`.
    """
    name, _, rest = text.partition(":")
    if not name.strip():
        raise UsageError(f"{option}: {text!r} has no name; write NAME or NAME:key=value,key=value")
    return name.strip(), settings(option, rest)


def settings(option: str, text: str) -> dict[str, object]:
    """The values in `key=value,…`, by key."""
    values: dict[str, object] = {}
    for part in _split(option, text, ","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option}: {part!r} is not key=value")
        if key.strip() in values:
            raise UsageError(f"{option}: {key.strip()} is given twice")
        values[key.strip()] = _value(option, value.strip())
    return values


def infeasible_reason(job: TraceJob, cluster: ClusterSpec) -> str | None:
    """The reason that the cluster could never run the job for lack of GPUs; None if it could."""
    there = cluster.gpus
    wanted = (job.gpu_type,) if job.gpu_type is not None else job.gpu_types or tuple(there)
    types = [kind for kind in wanted if kind in there]
    if not types:
        return f"asks for GPUs of type {' or '.join(wanted)}, but the cluster has {', '.join(there)}"
    if all(there[kind] < job.gpus for kind in types):
        most = max((there[kind], kind) for kind in types)
        return f"asks for {job.gpus} GPUs, but the cluster has {most[0]} {most[1]}"
    each = job.gpus // job.nodes
    if not job.split and all(
        sum(group.nodes for group in cluster.groups if group.gpu_type == kind and group.gpus >= each) < job.nodes
        for kind in types
    ):
        return f"asks for {job.nodes} nodes with {each} GPUs each, but the cluster has fewer such nodes"
    return None


def assumed(study: Study, options: Options) -> dict[str, object]:
    """The assumptions of a run as plain JSON values, without quotas, which the cluster or the trace has."""
    values = {name: value for name, value in asdict(options).items() if name not in {"policy", "quotas", "audit_every"}}
    gpus = ",".join(f"{group.gpu_type}:{group.nodes}x{group.gpus}" for group in study.cluster.groups)
    plain: dict[str, object] = json.loads(json.dumps({"cluster": gpus, **values}))
    return plain


def catalogue() -> dict[str, dict[str, str]]:
    """All names that options accept, by kind, with one sentence each."""
    registries: dict[str, Registry[Any]] = {
        "policies": POLICIES, "placements": PLACEMENTS, "admissions": ADMISSIONS, "generators": generators,
    }  # fmt: skip
    listed = {kind: {name: registry.summary(name) for name in registry.names} for kind, registry in registries.items()}
    return listed | {"formats": {name: each.sentence for name, each in formats().items()}}


def _go_on(arguments: Arguments, path: Path) -> Study:
    """The study of a pool from a snapshot of it on; by default with its own policy."""
    nothing = Arguments()
    for name in _OF_A_TRACE:
        if getattr(arguments, name) != getattr(nothing, name):
            option = name.removesuffix("_s").replace("_", "-")
            raise UsageError(f"--{option}: not with --from, which has the jobs and the GPUs of a pool")
    start = _as_option_error("--from", lambda: read_start(path, unknown_s=arguments.unknown_s))
    config = start.config
    runs = _runs(
        replace(arguments, policies=arguments.policies or (config.policy,)), lambda name: Options.of(config, name)
    )
    note = f"jobs without a predicted run time: {start.unknown} of {len(start.trace.jobs)}; "
    note += f"{arguments.unknown_s:g} s are assumed of each (--unknown)"
    return Study(start.trace, start.cluster, tuple(runs), (note,) if start.unknown else (), start)


def _runs(arguments: Arguments, options_of: Callable[[str], Options]) -> list[tuple[str, Options]]:
    if not arguments.policies:
        raise UsageError(f"--policy: name at least one of {', '.join(POLICIES.names)}")
    given = {name: getattr(arguments, name) for name in _ASSUMPTIONS} | {
        "oracle": None if arguments.oracle is None else Oracle(arguments.oracle),
        "failures": Failures(arguments.failures),
        "screening": None if arguments.screening is None else _screening(arguments.screening),
        "skip_infeasible": arguments.skip_bad,
    }
    if arguments.placement is not None:
        given["placement"], given["placement_params"] = _plugin("--placement", PLACEMENTS, arguments.placement)
    if arguments.admission is not None:
        given["admission"], given["admission_params"] = _plugin("--admission", ADMISSIONS, arguments.admission)
    said = {name: value for name, value in given.items() if value is not None}
    runs: dict[str, Options] = {}
    for text in arguments.policies:
        policy, params = _plugin("--policy", POLICIES, text)
        options = options_of(policy)
        options = replace(options, policy_params={**options.policy_params, **params}, **said)
        _as_option_error("--policy", compose, options.config)
        twins = sum(label.partition(" (")[0] == text for label in runs)
        runs[f"{text} ({twins + 1})" if twins else text] = options
    return list(runs.items())


def _check_cells(options: Options, quotas: Mapping[str, Mapping[str, int]], trace: Trace) -> None:
    """Refuse an admission by cells if several virtual clusters have no quotas to make cells of."""
    by_cells = ADMISSIONS.make(options.admission, options.admission_params).chooses_gpus
    if by_cells and not quotas and len({job.vc for job in trace.jobs}) > 1:
        raise UsageError(
            f"--admission: {options.admission} makes cells of the quotas of virtual clusters, and neither the trace "
            "nor --cluster has quotas; give `vcs` in a YAML file of --cluster, such as `vcs: by-gpu-time`"
        )


def _screening(text: str) -> Screening:
    known = {each.name: each for each in fields(Screening)}
    values: dict[str, Any] = {}
    for name, value in settings("--screening", text).items():
        _check_name("--screening", "setting", name, known)
        whole = known[name].type == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not math.isfinite(value):
            raise UsageError(f"--screening: {name} must be a {'whole ' if whole else ''}number, not {value!r}")
        values[name] = value
    if "gpus" not in values:
        raise UsageError("--screening: give the number of GPUs of the pool, such as gpus=8")
    return _as_option_error("--screening", lambda: Screening(**values))


def _plugin(option: str, registry: Registry[Any], text: str) -> tuple[str, dict[str, object]]:
    name, params = named(option, text)
    _check_name(option, registry.kind, name, registry.names)
    _as_option_error(option, registry.make, name, params)
    return name, params


def _check_name(option: str, kind: str, name: str, names: Iterable[str]) -> None:
    known = list(names)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise UsageError(f"{option}: unknown {kind} {name!r}{hint} The choices are {', '.join(known)}")


def _peer(arguments: Arguments) -> Peer | None:
    if arguments.format is not None:
        _check_name("--format", "format", arguments.format, formats())
    if arguments.peer is None:
        return (
            formats()[arguments.format].peer if arguments.format is not None and arguments.trace is not None else None
        )
    if not arguments.peer:
        return None
    if arguments.trace is None:
        raise UsageError("--peer: only for a trace from a file")
    name = arguments.format or _as_option_error("--trace", detect, arguments.trace).name
    peer = formats()[name].peer
    if peer is None:
        those = ", ".join(other for other, each in formats().items() if each.peer)
        raise UsageError(f"--peer: no simulator is known for format {name}, only for {those}")
    return peer


def _trace(arguments: Arguments, peer: Peer | None) -> Trace:
    if (arguments.trace is None) == (arguments.generate is None):
        raise UsageError("--trace: give either a trace or --generate, not both" if arguments.trace else
                           "--trace: give the file of a trace, or --generate one")  # fmt: skip
    if arguments.generate is not None:
        name, params = named("--generate", arguments.generate)
        _check_name("--generate", "generator", name, generators.names)
        if arguments.throughputs is not None and "throughputs" in generators.schema(name)["properties"]:
            params.setdefault("throughputs", str(arguments.throughputs))
        trace = _as_option_error("--generate", generate, name, params, arguments.seed)
        return trace if arguments.limit is None else replace(trace, jobs=trace.jobs[: arguments.limit])
    path = arguments.trace or Path()
    if not path.exists():  # checked here, since some formats look for other files first
        raise UsageError(f"--trace: {path.name}: No such file or directory")

    def read() -> Trace:
        return read_trace(
            path,
            arguments.format,
            skip_bad=arguments.skip_bad,
            start_s=arguments.start_s,
            end_s=arguments.end_s,
            limit=arguments.limit,
            options=_read_options(arguments, peer),
        )

    trace = _as_option_error("--trace", read)
    if not trace.jobs:
        raise UsageError(f"--trace: {trace.name} has no job between --start and --end")
    return trace


def _read_options(arguments: Arguments, peer: Peer | None) -> ReadOptions:
    known = {each.name: each for each in fields(ReadOptions) if each.name not in _READ_ELSEWHERE}
    values: dict[str, Any] = dict(peer.works) if peer else {}
    if arguments.throughputs is not None:
        if not arguments.throughputs.exists():
            raise UsageError(f"--throughputs: there is no file or folder {arguments.throughputs}")
        values |= {"throughputs": arguments.throughputs, "applications": arguments.throughputs}
    for name, value in settings("--read", arguments.read or "").items():
        _check_name("--read", "option of a format", name, known)
        values[name] = _converted(name, value, str(known[name].type))
    return ReadOptions(**values)


def _converted(name: str, value: object, kind: str) -> object:
    """The value converted to the type of the field of `ReadOptions`."""
    if kind.startswith("Path"):
        return Path(str(value))
    if kind.startswith("str"):
        return str(value)
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool) and value > 0,
        "float": isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf,
    }
    if not fits[kind]:
        wanted = {"bool": "true or false", "int": "a whole number above 0", "float": "a number above 0"}[kind]
        raise UsageError(f"--read: {name} must be {wanted}, not {value!r}")
    return value


def _check_numbers(arguments: Arguments) -> None:
    times = {
        "--round": arguments.round_s, "--first-round": arguments.first_round_s, "--restart": arguments.restart_s,
        "--first-start": arguments.first_start_s, "--grace": arguments.grace_s, "--start": arguments.start_s,
        "--retry-after": arguments.retry_after_s, "--unknown": arguments.unknown_s,
    }  # fmt: skip
    for option, value in times.items():
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{option}: must be a number of seconds of at least 0, not {value:g}")
    parts = {
        "--interference": arguments.interference, "--spread-penalty": arguments.spread_penalty,
        "--rack-penalty": arguments.rack_penalty,
    }  # fmt: skip
    for option, value in parts.items():
        if not 0 <= value < 1:
            raise UsageError(f"{option}: must be the lost share of the speed, from 0 to below 1, not {value:g}")
    if not 0 <= arguments.rate_noise < math.inf:
        raise UsageError(f"--rate-noise: must be a standard deviation of at least 0, not {arguments.rate_noise:g}")
    if not arguments.end_s > arguments.start_s:
        raise UsageError(f"--end: must be after --start, not {arguments.end_s:g}")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit: must be at least 1, not {arguments.limit}")
    if arguments.seed < 0:
        raise UsageError(f"--seed: must be at least 0, not {arguments.seed}")
    if arguments.retries < 0:
        raise UsageError(f"--retries: must be at least 0, not {arguments.retries}")
    if arguments.oracle is not None:
        _check_name("--oracle", "oracle", arguments.oracle, [each.value for each in Oracle])
    _check_name("--failures", "kind of failures", arguments.failures, [each.value for each in Failures])


def _left_out(trace: Trace) -> Iterable[str]:
    if trace.skipped:
        first = trace.skipped[0]
        lines = f"{len(trace.skipped)} bad lines left out; the first is line {first.line}: {first.reason}"
        yield f"{trace.name}: {lines}"
    for reason, count in trace.left_out.items():
        yield f"{trace.name}: {count} jobs left out: {reason}"


def _single_group(label: str, options: Options, trace: Trace) -> str | None:
    """A note if `drf` serves a single user or virtual cluster, and so decides like `fifo`; None otherwise."""
    policy = compose(options.config).policy
    if not isinstance(policy, Drf):
        return None
    by_user = policy.over == "user"
    if len({job.owner if by_user else job.vc for job in trace.jobs}) > 1:
        return None
    group = "owner" if by_user else "virtual cluster"
    return f"{label}: all jobs of the trace have the same {group}, so drf orders them like fifo"


def _as_learned(options: Options) -> Options:
    """The options with learned run times if the policy reads run times."""
    policy = compose(options.config).policy
    reads = isinstance(policy, InformedPolicy) and Need.REMAINING in policy.needs
    return replace(options, oracle=Oracle.LEARNED) if reads else options


def _place(trace: Trace, job: TraceJob) -> str:
    return f"{trace.name}, line {job.line}" if job.line else f"{trace.name}, job {job.id}"


def _as_option_error(option: str, function: Callable[..., T], *args: Any) -> T:
    """The function's result; its errors are reported as errors of the option."""
    try:
        return function(*args)
    except UsageError:
        raise
    except (ConfigError, ClusterError, TraceError, StartError, ApplicationError) as error:
        raise UsageError(f"{option}: {error}") from None
    except (OSError, TypeError, ValueError, OverflowError) as error:
        # A plug-in's own error about values that its schema cannot refuse.
        raise UsageError(f"{option}: {error}") from error


def _split(option: str, text: str, separators: str) -> list[str]:
    """The parts between separators outside brackets and quotes."""
    parts, open_brackets, quoted, escaped = [""], "", False, False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in _CLOSERS:
            open_brackets += _CLOSERS[character]
        elif open_brackets.endswith(character):
            open_brackets = open_brackets[:-1]
        if character in separators and not quoted and not open_brackets:
            parts.append("")
        else:
            parts[-1] += character
    if quoted or open_brackets:
        raise UsageError(f"{option}: {text!r} lacks {'a closing quote' if quoted else open_brackets[-1]}")
    return [part for part in parts if part.strip()]


def _value(option: str, text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        if text.startswith("[") and text.endswith("]"):
            return [_value(option, part.strip()) for part in _split(option, text[1:-1], ";,")]
        return text
    return value
