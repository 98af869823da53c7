"""The GPUs of a job spec: `4`, `A100:4`, `{any_of: [A100:4, V100:8]}` or `{vram: 40GiB, count: 2}`, for each node."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from muster.jobs.spec.units import SIZE_PATTERN, parse_size_mib

MAX_GPUS = 1024
MAX_CHOICES = 8

_GPUS = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9_.\-]{0,61}):)?([0-9]{1,6})")
# How pydantic names the two forms in the location of an error. A reader sees one field.
_TEXT, _MAPPING, _MEMORY = "function-gpus-text", "function-gpus-mapping", "function-gpus-memory"


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """GPUs of one type on each node; an empty type: of any one type."""

    gpu_type: str
    gpus: int


def _text(value: object) -> str:
    """`4`, `"4"` or `"A100:4"` in their one stored form."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("write 4, or A100:4")
    match = _GPUS.fullmatch(str(value))
    if not match:
        raise ValueError(f"{str(value)[:40]!r} is not a number of GPUs per node: write 4, or A100:4")
    if int(match[2]) > MAX_GPUS:
        raise ValueError(f"{match[2]} GPUs on one node: at most {MAX_GPUS}")
    return f"{match[1]}:{int(match[2])}" if match[1] else str(int(match[2]))


def _choice(value: object) -> str:
    text = _text(value) if isinstance(value, int | str) else ""
    choice = read_gpus(text) if text else GpuChoice("", 0)
    if not choice.gpu_type or not choice.gpus:
        raise ValueError("write a GPU type and how many of it on each node, such as A100:4")
    return text


def _size(text: str) -> str:
    if parse_size_mib(text) < 1:
        raise ValueError("write 1MiB or more")
    return text


def _types_once(texts: list[str]) -> list[str]:
    twice = [gpu_type for gpu_type, times in Counter(read_gpus(text).gpu_type for text in texts).items() if times > 1]
    if twice:
        raise ValueError(f"{twice[0]} is there twice: name each GPU type once")
    return texts


class AnyOf(BaseModel):
    """GPU types that the job accepts, in order of preference, with the number of GPUs on each node."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    any_of: Annotated[
        list[Annotated[str, BeforeValidator(_choice, json_schema_input_type=str)]], AfterValidator(_types_once)
    ] = Field(
        min_length=1,
        max_length=MAX_CHOICES,
        description="GPU types with their sizes, such as [A100:4, V100:8], in order of preference.",
    )


class WithMemory(BaseModel):
    """GPUs of any one type whose memory is large enough."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    vram: Annotated[str, AfterValidator(_size)] = Field(
        json_schema_extra={"pattern": SIZE_PATTERN}, description="The smallest memory of each GPU, such as 40GiB."
    )
    count: int = Field(ge=1, le=MAX_GPUS, description="GPUs on each node.")


def _form(value: Any) -> str:
    if isinstance(value, WithMemory) or (
        isinstance(value, dict) and "any_of" not in value and {"vram", "count"} & value.keys()
    ):
        return _MEMORY
    return _MAPPING if isinstance(value, dict | AnyOf) else _TEXT


Gpus = Annotated[
    Annotated[str, BeforeValidator(_text, json_schema_input_type=int | str), Tag(_TEXT)]
    | Annotated[AnyOf, Tag(_MAPPING)]
    | Annotated[WithMemory, Tag(_MEMORY)],
    Discriminator(_form),
]


def read_gpus(text: str) -> GpuChoice:
    """The choice that a valid text such as `A100:4` names."""
    gpu_type, _, gpus = text.rpartition(":")
    return GpuChoice(gpu_type, int(gpus))


def choices_of(gpus: str | AnyOf | WithMemory) -> tuple[GpuChoice, ...]:
    """GPU choices of the job, in order of preference; one choice if the spec gives no list.

    A pool must have turned memory into types before it matters; until then any type will do.
    """
    if isinstance(gpus, WithMemory):
        return (GpuChoice("", gpus.count),)
    texts = gpus.any_of if isinstance(gpus, AnyOf) else [gpus]
    return tuple(read_gpus(text) for text in texts)
