"""The spec of a sweep: a job spec with the key `sweep`, which says how its members differ; and their parameters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.common.errors import FieldError, Invalid, unknown_key
from muster.jobs.spec.spec_errors import message_of
from scheduler.search.rungs import Goal, Method
from scheduler.search.rungs import Rungs as SearchRungs
from scheduler.search.space import MAX_MEMBERS, Point, SearchError, draw, grid, parse_space


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Rungs(_Strict):
    """The steps at which members are compared, and how many go on."""

    first: int = Field(ge=1, description="Steps of the first rung.")
    last: int = Field(ge=1, description="Steps of a whole run.")
    keep: int = Field(default=3, ge=2, le=100, description="The best 1/keep of the members go on at each rung.")


class SweepSpec(_Strict):
    """The differences between members of a sweep, and the rule by which they go on."""

    method: Annotated[Method, Field(strict=False)] = Field(
        description="grid: each combination; random: drawn; halving and asha: drawn, and stopped early at rungs."
    )
    metric: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}$")] = Field(
        description="The figure that members report and by which they are compared."
    )
    goal: Annotated[Goal, Field(strict=False)] = Field(
        default=Goal.MIN, description="Whether less or more of the metric is better."
    )
    params: dict[str, Any] = Field(
        min_length=1, max_length=50, description="Of each parameter the values, such as {lr: {log: [1.0e-5, 1.0e-1]}}."
    )
    members: int | None = Field(default=None, ge=1, le=MAX_MEMBERS, description="How many are drawn; not for grid.")
    seed: int = Field(default=0, ge=0, lt=1 << 53, description="The same seed draws the same members.")
    parallel: int = Field(default=16, ge=1, le=MAX_MEMBERS, description="Members that run at once, at most.")
    rungs: Rungs | None = Field(default=None, description="For halving and asha: where members are compared.")
    max_failures: int = Field(
        default=3,
        ge=1,
        le=MAX_MEMBERS,
        description="The sweep stops when its first members to end, in this number, have all failed.",
    )

    @property
    def search_rungs(self) -> SearchRungs | None:
        """The rungs at which members are compared."""
        if self.rungs is None:
            return None
        return SearchRungs.of(self.rungs.first, self.rungs.last, self.rungs.keep)

    def stored(self) -> dict[str, Any]:
        """As it is stored and shown, with every default written out."""
        return self.model_dump(mode="json", exclude_none=True)


def parse_sweep(data: object) -> SweepSpec:
    """The part of the spec under `sweep`; `Invalid` names each wrong field."""
    if not isinstance(data, dict):
        raise Invalid.field("sweep", "write a mapping, such as {method: random, metric: loss, params: {lr: [0.1, 1]}}")
    try:
        sweep = SweepSpec.model_validate(data)
    except ValidationError as error:
        errors = tuple(_field_error(detail) for detail in error.errors(include_url=False)[:50])
        raise Invalid.fields(errors) from error
    _require_sense(sweep)
    return sweep


def sweep_of(spec: dict[str, Any]) -> SweepSpec:
    """The sweep of a stored spec."""
    return SweepSpec.model_validate(spec["sweep"])


def _require_sense(sweep: SweepSpec) -> None:
    """Return if the keys agree with each other, and raise `Invalid` for the first that does not."""
    if sweep.method is Method.GRID and sweep.members is not None:
        raise Invalid.field("sweep.members", "a grid has a member for each combination: leave it out, or write random")
    if sweep.method is not Method.GRID and sweep.members is None:
        raise Invalid.field("sweep.members", "write how many members are drawn, such as 27")
    if sweep.method.stops_early and sweep.rungs is None:
        raise Invalid.field("sweep.rungs", f"{sweep.method} compares members at rungs: write {{first: 3, last: 27}}")
    if not sweep.method.stops_early and sweep.rungs is not None:
        raise Invalid.field("sweep.rungs", f"{sweep.method} stops no members: leave it out, or write asha or halving")
    try:
        _ = sweep.search_rungs
    except SearchError as error:
        raise Invalid.field(error.field, error.problem) from error


def _field_error(detail: Any) -> FieldError:
    path = ["sweep", *map(str, detail["loc"])]
    field = ".".join(path)
    if detail["type"] == "extra_forbidden":
        model = Rungs if path[1] == "rungs" and len(path) > 2 else SweepSpec
        return FieldError(field, unknown_key(path[-1], list(model.model_fields)))
    if field == "sweep.params" and detail["type"] in {"missing", "too_short"}:
        return FieldError(field, "name at least one parameter and its values, such as {lr: [0.1, 0.01]}")
    if field == "sweep.metric":
        return FieldError(field, "write the name of a figure that members report, such as val_loss")
    return FieldError(field, message_of(detail, path))


def params_of(sweep: SweepSpec) -> list[Point]:
    """The parameters of each member, in order; `Invalid` names the field that makes none."""
    try:
        space = parse_space(sweep.params)
        return grid(space) if sweep.method is Method.GRID else draw(space, sweep.members or 0, sweep.seed)
    except SearchError as error:
        raise Invalid.field(error.field, error.problem) from error
