"""The operators' table of Slurm's words: the partitions, accounts and qualities of service of their site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from muster.common.errors import FieldError, Invalid, unknown_key
from muster.jobs.spec.spec_errors import message_of
from muster.sbatch.values import mebibytes, minutes
from nodeagent.protocol.volumes import path_problem
from scheduler.documents import DocumentError, load_yaml
from scheduler.model.lifecycle import JobClass

MAX_ENTRIES = 500


def _minutes(value: object) -> int | None:
    return minutes(_text(value))


def _mebibytes(value: object) -> int:
    return mebibytes(_text(value))


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("write text, such as 1:00:00 for a time or 2G for memory")
    return str(value)


def _folder(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(problem)
    return path


Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]{1,64}$")]
Limit = Annotated[int | None, BeforeValidator(_minutes)]
Folder = Annotated[str, AfterValidator(_folder)]


class Entry(BaseModel):
    """The meaning of a word. The default word of its kind holds for scripts that name none."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    default: bool = False


class PartitionEntry(Entry):
    """A partition: a pool, with limits in minutes; `time` is the limit of jobs that name none."""

    pool: str
    time: Limit = None
    max_time: Limit = None
    max_nodes: int | None = Field(default=None, ge=1)
    memory_per_cpu: Annotated[int, BeforeValidator(_mebibytes), Field(ge=1)] | None = None
    """The memory, in MiB for each CPU, of jobs that name none."""


class AccountEntry(Entry):
    """An account: a tenant, and one of its virtual clusters; None: all of them."""

    tenant: str
    vc: str | None = None


class QosEntry(Entry):
    """A quality of service: a priority and a class, with a limit in minutes."""

    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    klass: Annotated[JobClass, Field(strict=False)] = Field(default=JobClass.GUARANTEED, alias="class")
    max_time: Limit = None


class Table(BaseModel):
    """The words of a site. Pools, tenants and priorities stand in for a kind that has no entry."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    cluster_name: Word = "muster"
    partitions: dict[Word, PartitionEntry] = Field(default_factory=dict, max_length=MAX_ENTRIES)
    accounts: dict[Word, AccountEntry] = Field(default_factory=dict, max_length=MAX_ENTRIES)
    qos: dict[Word, QosEntry] = Field(default_factory=dict, max_length=MAX_ENTRIES)
    shared_folders: list[Folder] = Field(default_factory=list, max_length=MAX_ENTRIES)
    """Folders that all nodes and the submitting machines have at the same path."""


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a table may use: pools, tenants, and virtual clusters with their tenants."""

    pools: frozenset[str]
    tenants: frozenset[str]
    vcs: Mapping[str, str]


_KINDS: Mapping[str, type[BaseModel]] = {"partitions": PartitionEntry, "accounts": AccountEntry, "qos": QosEntry}
_EXAMPLES = {"partitions": "{pool: main}", "accounts": "{tenant: vision}", "qos": "{priority: high}"}
E = TypeVar("E", bound=Entry)


def read_table(text: str) -> Table:
    """The table of a YAML text.

    Raises:
        Invalid: names each wrong field, or `table` where the text is not YAML.
    """
    try:
        data = load_yaml(text)
    except DocumentError as error:
        raise Invalid.field("table", str(error)) from error
    if data is not None and not isinstance(data, dict):
        raise Invalid.field("table", "write a mapping with partitions, accounts, qos, shared_folders and cluster_name")
    try:
        table = Table.model_validate(data or {}, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Invalid.fields([_field_error(detail) for detail in error.errors(include_url=False)[:50]]) from error
    errors = [*_double_defaults(table), *_limits(table)]
    if errors:
        raise Invalid.fields(errors)
    return table


def require_known(table: Table, known: Known) -> None:
    """Return if the pools, tenants and virtual clusters of the table exist; `Invalid` names each field where not."""
    errors = []
    for word, partition in table.partitions.items():
        if partition.pool not in known.pools:
            errors.append(FieldError(f"partitions.{word}.pool", f"there is no pool {partition.pool!r}"))
    for word, account in table.accounts.items():
        if account.tenant not in known.tenants:
            errors.append(FieldError(f"accounts.{word}.tenant", f"there is no tenant {account.tenant!r}"))
        elif account.vc is not None and known.vcs.get(account.vc) != account.tenant:
            message = f"tenant {account.tenant} has no virtual cluster {account.vc!r}"
            errors.append(FieldError(f"accounts.{word}.vc", message))
    if errors:
        raise Invalid.fields(errors)


def default_of(entries: Mapping[str, E]) -> str | None:
    """The word that holds for scripts that name none."""
    return next((word for word, entry in entries.items() if entry.default), None)


def _double_defaults(table: Table) -> list[FieldError]:
    errors = []
    for kind in _KINDS:
        first, *others = [word for word, entry in getattr(table, kind).items() if entry.default] or [""]
        errors += [FieldError(f"{kind}.{word}.default", f"{first} is the default already") for word in others]
    return errors


def _limits(table: Table) -> list[FieldError]:
    return [
        FieldError(f"partitions.{word}.time", "it is more than max_time")
        for word, one in table.partitions.items()
        if one.max_time is not None and one.time is not None and one.time > one.max_time
    ]


def _field_error(detail: ErrorDetails) -> FieldError:
    path = [str(part) for part in detail["loc"] if part != "[key]" and not str(part).startswith("function-")]
    field, kind = ".".join(path), detail["type"]
    if kind == "extra_forbidden":
        known: Any = Table if len(path) == 1 else _KINDS[path[0]]
        return FieldError(field, unknown_key(path[-1], [one.alias or name for name, one in known.model_fields.items()]))
    if kind == "string_pattern_mismatch":
        return FieldError(field, "a word has 1 to 64 letters, digits and _.+-")
    if kind in {"model_type", "dict_type"} and path[0] in _KINDS:
        each = _EXAMPLES[path[0]]
        return FieldError(field, f"write a mapping, such as {each if len(path) > 1 else f'{{name: {each}}}'}")
    return FieldError(field, message_of(detail, path))
