"""What a command line asks of the simulator, understood and checked before anything is simulated.

Two programs have these options, `python -m scheduler.sim` and `muster simulate`; docs/simulator.md lists them.
"""

from __future__ import annotations

import difflib
import importlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import compose
from scheduler.engine.policy import POLICIES
from scheduler.placement import PLACEMENTS
from scheduler.policies.drf import Drf
from scheduler.registry import ConfigError, Registry
from scheduler.sim.applications import ApplicationError
from scheduler.sim.cluster import ClusterError, ClusterSpec, load_cluster
from scheduler.sim.failures import Failures
from scheduler.sim.generators import generate, generators
from scheduler.sim.options import Options, Oracle
from scheduler.sim.readers import Peer, ReadOptions, detect, formats, read_trace
from scheduler.sim.screening import Screening
from scheduler.sim.trace import Trace, TraceError, TraceJob

_CLOSERS = {"[": "]", "{": "}"}
# What the request itself has an option for.
_READ_ELSEWHERE = frozenset({"skip_bad", "start_s", "end_s", "limit"})

T = TypeVar("T")


class RequestError(ValueError):
    """A request that makes no sense; the message begins with the option that is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options as they were given; None and empty: not given."""

    trace: Path | None = None
    generate: str | None = None
    format: str | None = None
    policies: Sequence[str] = ()
    cluster: str | None = None
    placement: str | None = None
    admission: str = "quota"
    peer: bool | None = None  # None: where the format is named, and its traces have authors with a simulator
    round_s: float | None = None
    first_round_s: float | None = None
    restart_s: float | None = None
    first_start_s: float | None = None
    grace_s: float = 0.0
    interference: float = 0.0
    spread_penalty: float = 0.0
    rack_penalty: float = 0.0
    share: bool = False
    oracle: str = Oracle.PERFECT.value
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
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Study:
    """Runs that can be simulated: one trace on one cluster, by the name and the options of each."""

    trace: Trace
    cluster: ClusterSpec
    runs: tuple[tuple[str, Options], ...]
    notes: tuple[str, ...] = ()  # what a reader of the figures should know


def prepare(request: Request) -> Study:
    """The study that is asked for; raises a `RequestError` for the first thing that is wrong with it."""
    _check_numbers(request)
    peer = _peer(request)
    runs = _runs(request, peer)
    where = request.cluster or (peer.cluster if peer else None)
    if where is None:
        raise RequestError("--cluster: say which GPUs there are, as in V100:2x4,P100:4x4 or in a YAML file")
    cluster = _blame("--cluster", load_cluster, where)
    trace = _trace(request, peer)
    notes = list(_left_out(trace))
    misfits = [(job, reason) for job in trace.jobs if (reason := misfit(job, cluster))]
    if misfits:
        job, reason = misfits[0]
        if not request.skip_bad:
            raise RequestError(f"--trace: {_place(trace, job)}: {reason}")
        odd = {job.id for job, _ in misfits}
        trace = replace(trace, jobs=tuple(job for job in trace.jobs if job.id not in odd))
        notes.append(f"{len(misfits)} jobs left out that the cluster can never run; {_place(trace, job)}: {reason}")
    quotas = _blame("--cluster", cluster.quotas_for, trace)
    notes += [note for label, run in runs if (note := _single_group(label, run, trace))]
    return Study(trace, cluster, tuple((label, replace(run, quotas=quotas)) for label, run in runs), tuple(notes))


def named(option: str, text: str) -> tuple[str, dict[str, object]]:
    """The name and the parameters in `NAME[:key=value,…]`.

    A value is JSON where it can be, else text; a list is JSON or `[a;b]`.
    """
    name, _, rest = text.partition(":")
    if not name.strip():
        raise RequestError(f"{option}: {text!r} has no name; write NAME or NAME:key=value,key=value")
    return name.strip(), settings(option, rest)


def settings(option: str, text: str) -> dict[str, object]:
    """The values in `key=value,…`, by key."""
    values: dict[str, object] = {}
    for part in _split(option, text, ","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise RequestError(f"{option}: {part!r} is not key=value")
        if key.strip() in values:
            raise RequestError(f"{option}: {key.strip()} is there twice")
        values[key.strip()] = _value(option, value.strip())
    return values


def misfit(job: TraceJob, cluster: ClusterSpec) -> str | None:
    """Why the cluster could never run the job, for want of GPUs; None when it could."""
    there = cluster.gpus
    wanted = (job.gpu_type,) if job.gpu_type is not None else job.gpu_types or tuple(there)
    types = [kind for kind in wanted if kind in there]
    if not types:
        return f"asks for GPUs of type {' or '.join(wanted)}, and the cluster has {', '.join(there)}"
    if all(there[kind] < job.gpus for kind in types):
        most = max((there[kind], kind) for kind in types)
        return f"asks for {job.gpus} GPUs, and the cluster has {most[0]} {most[1]}"
    each = job.gpus // job.nodes
    if not job.split and all(
        sum(group.nodes for group in cluster.groups if group.gpu_type == kind and group.gpus >= each) < job.nodes
        for kind in types
    ):
        return f"asks for {job.nodes} nodes with {each} GPUs each, and the cluster has not so many"
    return None


def assumed(study: Study, options: Options) -> dict[str, object]:
    """What a run assumes, as plain JSON values; without the quotas, which the cluster or the trace has."""
    values = {name: value for name, value in asdict(options).items() if name not in {"policy", "quotas", "audit_every"}}
    gpus = ",".join(f"{group.gpu_type}:{group.nodes}x{group.gpus}" for group in study.cluster.groups)
    plain: dict[str, object] = json.loads(json.dumps({"cluster": gpus, **values}))
    return plain


def catalogue() -> dict[str, dict[str, str]]:
    """What can be named, by kind: each name with one sentence."""
    registries: dict[str, Registry[Any]] = {
        "policies": POLICIES, "placements": PLACEMENTS, "admissions": ADMISSIONS, "generators": generators,
    }  # fmt: skip
    listed = {
        kind: {name: _sentence(f"{registry.package}.{name}") for name in registry.names}
        for kind, registry in registries.items()
    }
    return listed | {"formats": {name: each.sentence for name, each in formats().items()}}


def _runs(request: Request, peer: Peer | None) -> list[tuple[str, Options]]:
    if not request.policies:
        raise RequestError(f"--policy: name at least one of {', '.join(POLICIES.names)}")
    given: dict[str, Any] = {
        "round_s": request.round_s,
        "first_round_s": request.first_round_s,
        "restart_s": request.restart_s,
        "first_start_s": request.first_start_s,
        "grace_s": request.grace_s,
        "interference": request.interference,
        "spread_penalty": request.spread_penalty,
        "rack_penalty": request.rack_penalty,
        "share": request.share,
        "oracle": Oracle(request.oracle),
        "failures": Failures(request.failures),
        "retries": request.retries,
        "retry_hopeless": request.retry_hopeless,
        "retry_after_s": request.retry_after_s,
        "screening": None if request.screening is None else _screening(request.screening),
        "seed": request.seed,
        "skip_infeasible": request.skip_bad,
    }
    if request.placement is not None:
        given["placement"], given["placement_params"] = _plugin("--placement", PLACEMENTS, request.placement)
    given["admission"], given["admission_params"] = _plugin("--admission", ADMISSIONS, request.admission)
    said = {name: value for name, value in given.items() if value is not None}
    runs: dict[str, Options] = {}
    for text in request.policies:
        policy, params = _plugin("--policy", POLICIES, text)
        options = Options.like(peer, policy) if peer else Options(policy=policy)
        options = replace(options, policy_params={**options.policy_params, **params}, **said)
        _blame("--policy", compose, options.config)
        twins = sum(label.partition(" (")[0] == text for label in runs)
        runs[f"{text} ({twins + 1})" if twins else text] = options
    return list(runs.items())


def _screening(text: str) -> Screening:
    known = {each.name: each for each in fields(Screening)}
    values: dict[str, Any] = {}
    for name, value in settings("--screening", text).items():
        _check_name("--screening", "setting", name, known)
        whole = known[name].type == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not math.isfinite(value):
            raise RequestError(f"--screening: {name} must be a {'whole ' if whole else ''}number, not {value!r}")
        values[name] = value
    if "gpus" not in values:
        raise RequestError("--screening: say how many GPUs the pool has, as in gpus=8")
    return _blame("--screening", lambda: Screening(**values))


def _plugin(option: str, registry: Registry[Any], text: str) -> tuple[str, dict[str, object]]:
    name, params = named(option, text)
    _check_name(option, registry.kind, name, registry.names)
    _blame(option, registry.make, name, params)
    return name, params


def _check_name(option: str, kind: str, name: str, names: Iterable[str]) -> None:
    known = list(names)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise RequestError(f"{option}: there is no {kind} {name!r}; {hint}There is {', '.join(known)}")


def _peer(request: Request) -> Peer | None:
    if request.format is not None:
        _check_name("--format", "format", request.format, formats())
    if request.peer is None:
        return formats()[request.format].peer if request.format is not None and request.trace is not None else None
    if not request.peer:
        return None
    if request.trace is None:
        raise RequestError("--peer: only a trace in a file has authors with a simulator of their own")
    name = request.format or _blame("--trace", detect, request.trace).name
    peer = formats()[name].peer
    if peer is None:
        those = ", ".join(other for other, each in formats().items() if each.peer)
        raise RequestError(f"--peer: nothing is known of a simulator for format {name}; it is for {those}")
    return peer


def _trace(request: Request, peer: Peer | None) -> Trace:
    if (request.trace is None) == (request.generate is None):
        raise RequestError("--trace: give either a trace or --generate, not both" if request.trace else
                           "--trace: name the file of a trace, or --generate one")  # fmt: skip
    if request.generate is not None:
        name, params = named("--generate", request.generate)
        _check_name("--generate", "generator", name, generators.names)
        if request.throughputs is not None and "throughputs" in generators.schema(name)["properties"]:
            params.setdefault("throughputs", str(request.throughputs))
        trace = _blame("--generate", generate, name, params, request.seed)
        return trace if request.limit is None else replace(trace, jobs=trace.jobs[: request.limit])
    path = request.trace or Path()
    if not path.exists():  # said here, as some formats look for other files first
        raise RequestError(f"--trace: {path.name}: No such file or directory")

    def read() -> Trace:
        return read_trace(
            path,
            request.format,
            skip_bad=request.skip_bad,
            start_s=request.start_s,
            end_s=request.end_s,
            limit=request.limit,
            options=_read_options(request, peer),
        )

    trace = _blame("--trace", read)
    if not trace.jobs:
        raise RequestError(f"--trace: {trace.name} has no job between --start and --end")
    return trace


def _read_options(request: Request, peer: Peer | None) -> ReadOptions:
    known = {each.name: each for each in fields(ReadOptions) if each.name not in _READ_ELSEWHERE}
    values: dict[str, Any] = dict(peer.works) if peer else {}
    if request.throughputs is not None:
        if not request.throughputs.exists():
            raise RequestError(f"--throughputs: there is no file or folder {request.throughputs}")
        values |= {"throughputs": request.throughputs, "applications": request.throughputs}
    for name, value in settings("--read", request.read or "").items():
        _check_name("--read", "option of a format", name, known)
        values[name] = _converted(name, value, str(known[name].type))
    return ReadOptions(**values)


def _converted(name: str, value: object, kind: str) -> object:
    """The value as the field of `ReadOptions` wants it."""
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
        raise RequestError(f"--read: {name} must be {wanted}, not {value!r}")
    return value


def _check_numbers(request: Request) -> None:
    times = {
        "--round": request.round_s, "--first-round": request.first_round_s, "--restart": request.restart_s,
        "--first-start": request.first_start_s, "--grace": request.grace_s, "--start": request.start_s,
        "--retry-after": request.retry_after_s,
    }  # fmt: skip
    for option, value in times.items():
        if value is not None and not 0 <= value < math.inf:
            raise RequestError(f"{option}: must be a number of seconds of at least 0, not {value:g}")
    parts = {
        "--interference": request.interference, "--spread-penalty": request.spread_penalty,
        "--rack-penalty": request.rack_penalty,
    }  # fmt: skip
    for option, value in parts.items():
        if not 0 <= value < 1:
            raise RequestError(
                f"{option}: must be the part of the speed that is lost, from 0 to below 1, not {value:g}"
            )
    if not request.end_s > request.start_s:
        raise RequestError(f"--end: must be after --start, not {request.end_s:g}")
    if request.limit is not None and request.limit < 1:
        raise RequestError(f"--limit: must be at least 1, not {request.limit}")
    if request.seed < 0:
        raise RequestError(f"--seed: must be at least 0, not {request.seed}")
    if request.retries < 0:
        raise RequestError(f"--retries: must be at least 0, not {request.retries}")
    _check_name("--oracle", "oracle", request.oracle, [each.value for each in Oracle])
    _check_name("--failures", "kind of failures", request.failures, [each.value for each in Failures])


def _left_out(trace: Trace) -> Iterable[str]:
    if trace.skipped:
        first = trace.skipped[0]
        lines = f"{len(trace.skipped)} bad lines left out; the first is line {first.line}: {first.reason}"
        yield f"{trace.name}: {lines}"
    for reason, count in trace.left_out.items():
        yield f"{trace.name}: {count} jobs left out: {reason}"


def _single_group(label: str, options: Options, trace: Trace) -> str | None:
    """That `drf` has a single user or virtual cluster to serve, and so decides as `fifo` does; None otherwise."""
    policy = compose(options.config).policy
    if not isinstance(policy, Drf):
        return None
    by_user = policy.over == "user"
    if len({job.owner if by_user else job.vc for job in trace.jobs}) > 1:
        return None
    whose = "owner" if by_user else "virtual cluster"
    return f"{label}: all jobs of the trace have the same {whose}, so drf serves them in the order of fifo"


def _place(trace: Trace, job: TraceJob) -> str:
    return f"{trace.name}, line {job.line}" if job.line else f"{trace.name}, job {job.id}"


def _blame(option: str, function: Callable[..., T], *args: Any) -> T:
    """What the function returns; what it refuses is put down to the option."""
    try:
        return function(*args)
    except RequestError:
        raise
    except (ConfigError, ClusterError, TraceError, ApplicationError) as error:
        raise RequestError(f"{option}: {error}") from None
    except (OSError, TypeError, ValueError, OverflowError) as error:
        # A plug-in's own complaint about values that its schema cannot refuse.
        raise RequestError(f"{option}: {error}") from error


def _sentence(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().partition("\n")[0]


def _split(option: str, text: str, separators: str) -> list[str]:
    """The parts between separators that stand in no brackets and no quotes."""
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
        raise RequestError(f"{option}: {text!r} lacks {'a closing quote' if quoted else open_brackets[-1]}")
    return [part for part in parts if part.strip()]


def _value(option: str, text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        if text.startswith("[") and text.endswith("]"):
            return [_value(option, part.strip()) for part in _split(option, text[1:-1], ";,")]
        return text
    return value
