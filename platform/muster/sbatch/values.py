"""The values of options, by Slurm's rules; each function raises ValueError with what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNLIMITED = {"infinite", "unlimited", "-1", "0"}
_DAYS = re.compile(r"(\d+)-(?:(\d+)(?::(\d+)(?::(\d+))?)?)?", re.ASCII)
_CLOCK = re.compile(r"(\d+)(?::(\d+)(?::(\d+))?)?", re.ASCII)
_SIZE = re.compile(r"(\d+)(?:([kmgt])b?)?", re.ASCII | re.IGNORECASE)
_COUNT = re.compile(r"\d+", re.ASCII)
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?", re.ASCII)
_SIGNALS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "ABRT": 6,
    "KILL": 9,
    "USR1": 10,
    "USR2": 12,
    "ALRM": 14,
    "TERM": 15,
    "CONT": 18,
    "STOP": 19,
    "TSTP": 20,
    "TTIN": 21,
    "TTOU": 22,
    "URG": 23,
}
_NODES = re.compile(r"-?(\d+)(k?)(?:-(\d+)(k?))?", re.ASCII)
_GROUP = re.compile(r"([^,\[\]]*)(?:\[([^\[\]]*)\]([^,\[\]]*))?")
MAX_HOSTS = 4096


def minutes(text: str) -> int | None:
    """A time limit in minutes, rounded up from seconds; None for no limit."""
    if text.lower() in UNLIMITED:
        return None
    if found := _DAYS.fullmatch(text):
        days, hours, mins, seconds = (int(part or 0) for part in found.groups())
        whole = ((days * 24 + hours) * 60 + mins) * 60 + seconds
    elif found := _CLOCK.fullmatch(text):
        first, second, third = found.groups()
        if second is None:
            whole = int(first) * 60
        elif third is None:
            whole = int(first) * 60 + int(second)
        else:
            whole = (int(first) * 60 + int(second)) * 60 + int(third)
    else:
        raise ValueError("write minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S")
    return -(-whole // 60) or None


def mebibytes(text: str) -> int:
    """A size of memory in MiB, which is the unit of a plain number; 0 means all of the node."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise ValueError("write a whole number, with K, M, G or T for other units than MiB")
    number, unit = int(found[1]), (found[2] or "m").lower()
    return -(-number // 1024) if unit == "k" else number << {"m": 0, "g": 10, "t": 20}[unit]


def count(text: str) -> int:
    """A whole number from 1."""
    if not _COUNT.fullmatch(text) or int(text) < 1:
        raise ValueError("write a whole number from 1")
    return int(text)


def node_count(text: str) -> tuple[int, int]:
    """The least and the most nodes of `N` or `MIN-MAX`."""
    found = _NODES.fullmatch(text)
    if not found:
        raise ValueError("write a number of nodes, or MIN-MAX")
    least = int(found[1]) * (1024 if found[2] else 1)
    most = least if found[3] is None else int(found[3]) * (1024 if found[4] else 1)
    if least < 1:
        raise ValueError("a job has a node at least")
    if most < least:
        raise ValueError(f"the most nodes, {most}, are fewer than the least, {least}")
    return least, most


@dataclass(frozen=True, slots=True)
class Gpus:
    """A number of GPUs, and their type if it was named."""

    number: int
    type: str | None = None


def gpus(text: str) -> Gpus:
    """The GPUs of `N`, `TYPE` or `TYPE:N`; of a list, whose types must be the same, the last."""
    found = [_gpus(part) for part in text.split(",")]
    return _of_one_type(found)


def _gpus(text: str) -> Gpus:
    kind, colon, number = text.rpartition(":")
    if not colon and not _COUNT.fullmatch(text):
        kind, number = text, "1"  # a type alone is one GPU of it
    if not _COUNT.fullmatch(number) or (colon and not kind):
        raise ValueError("write a number of GPUs, or TYPE:NUMBER")
    return Gpus(int(number), kind or None)


def gres(text: str) -> Gpus | None:
    """The GPUs of a list of generic resources on each node; None if it names none."""
    if text.lower() in {"none", ""}:
        return None
    found = []
    for part in text.split(","):
        name, colon, rest = part.partition(":")
        if name != "gpu":
            raise ValueError(f"the only generic resource is gpu, not {part or 'an empty part'}")
        found.append(_gpus(rest) if colon else Gpus(1))
    return _of_one_type(found)


def _of_one_type(found: list[Gpus]) -> Gpus:
    types = {one.type for one in found}
    if len(types) > 1 and None in types:
        raise ValueError("GPUs with a type and without one cannot be mixed")
    if len(types) > 1:
        raise ValueError("a job has GPUs of one type; name one, or any_of in a spec")
    return found[-1]


@dataclass(frozen=True, slots=True)
class Array:
    """Indices of an array in ascending order, and how many of its members run at once (None: all)."""

    indices: tuple[int, ...]
    parallel: int | None
    step: int = 1
    """That of a single range, which a job sees."""


def array(text: str, most: int) -> Array:
    """The array of a list of indices, ranges and steps with a limit: `1-9:2,12%4`; repeated indices count once.

    `most` is the highest index and the largest number of indices.
    """
    listed, percent, limit = text.partition("%")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    indices: set[int] = set()
    step = 1
    for part in filter(None, listed.split(",")):
        found = _RANGE.fullmatch(part)
        if not found:
            raise ValueError(f"{part} is no index, range (0-9) or range with a step (0-9:2)")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if step == 0:
            raise ValueError(f"{part} has a step of 0")
        if last < first:
            raise ValueError(f"{part} ends before it begins")
        if last > most:
            raise ValueError(f"the highest index is {most:,}")
        indices.update(range(first, last + 1, step))
    if not indices:
        raise ValueError("it names no index")
    parallel = int(limit) if percent and _COUNT.fullmatch(limit) else 0
    return Array(tuple(sorted(indices)), parallel or None, 1 if "," in listed else step)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal and how many seconds before the limit it is sent; `to_script`: to the script, and not to its steps."""

    name: str
    before_s: int
    to_script: bool


def signal(text: str) -> Signal:
    """The signal of `[R][B]:SIGNAL@SECONDS`; 60 s if none are named."""
    flags, colon, rest = text.rpartition(":")
    name, _, seconds = rest.partition("@")
    if colon and not set(flags.upper()) <= {"R", "B"}:
        raise ValueError("what stands before the colon is B, R or both")
    if seconds and not (_COUNT.fullmatch(seconds) and int(seconds) <= 65_535):
        raise ValueError("what follows @ is a number of seconds up to 65535")
    plain = name.upper().removeprefix("SIG")
    by_number = {str(number): known for known, number in _SIGNALS.items()}
    plain = by_number.get(plain, plain)
    if plain not in _SIGNALS:
        raise ValueError(f"the signals that can be sent are {', '.join(sorted(_SIGNALS))}")
    return Signal(plain, int(seconds) if seconds else 60, "B" in flags.upper())


def hosts(text: str) -> list[str]:
    """The names of a list such as `gpu[01-03,7],login`, in its order and once each."""
    names: dict[str, None] = {}
    place = 0
    while place < len(text):
        found = _GROUP.match(text, place)
        if not found or (found.end() < len(text) and text[found.end()] != ","):
            raise ValueError("write names, or a prefix with ranges such as gpu[01-03,7]")
        before, ranges, after = found.groups()
        for middle in [""] if ranges is None else _numbers(ranges):
            names[f"{before}{middle}{after or ''}"] = None
            if len(names) > MAX_HOSTS:
                raise ValueError(f"it names more than {MAX_HOSTS:,} nodes")
        place = found.end() + 1
    names.pop("", None)
    if not names:
        raise ValueError("it names no node")
    return list(names)


def _numbers(ranges: str) -> list[str]:
    found = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not _COUNT.fullmatch(first) or (dash and not _COUNT.fullmatch(last)):
            raise ValueError(f"{part} is no number and no range of numbers")
        end = int(last) if dash else int(first)
        if end < int(first) or end - int(first) >= MAX_HOSTS:
            raise ValueError(f"{part} is no range of up to {MAX_HOSTS:,} numbers")
        found += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    return found


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of a job: `kind` is one of after, afterany, afternotok, afterok, aftercorr or singleton.

    `index`: of a member of the array `job_id`. `later_min`: minutes after the start, of the kind after.
    """

    kind: str
    job_id: int | None = None
    index: int | None = None
    later_min: int = 0


_DEPENDENCY_KINDS = ("after", "afterany", "aftercorr", "afternotok", "afterok")
_DEPENDED = re.compile(r"(\d+)(?:_(\d+|\*))?(?:\+(\d+))?", re.ASCII)


def dependencies(text: str) -> tuple[list[Dependency], bool]:
    """The dependencies of a list, and whether one of them is enough (`?` between them)."""
    found: list[Dependency] = []
    for part in re.split(r"[,?]", text):
        if part == "singleton":
            found.append(Dependency("singleton"))
            continue
        kind, *jobs = part.split(":")
        if _DEPENDED.fullmatch(kind):
            kind, jobs = "afterany", [kind]  # the form before kinds were introduced
        if kind not in _DEPENDENCY_KINDS:
            raise ValueError(f"{kind or 'an empty part'} is no kind: write {', '.join(_DEPENDENCY_KINDS)} or singleton")
        if not jobs:
            raise ValueError(f"{kind} names no job")
        for job in jobs:
            one = _DEPENDED.fullmatch(job)
            if not one or (one[3] and kind != "after"):
                raise ValueError(f"{job or 'an empty part'} is no job's number")
            index = int(one[2]) if one[2] and one[2] != "*" else None
            found.append(Dependency(kind, int(one[1]), index, int(one[3] or 0)))
    return found, "?" in text
