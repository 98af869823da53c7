"""The parameters of a sweep's members, by `scheduler.search`."""

from __future__ import annotations

from muster.common.errors import Invalid
from muster.sweeps.spec import SweepSpec
from scheduler.search.rungs import Method
from scheduler.search.space import Point, SearchError, draw, grid, parse_space


def params_of(sweep: SweepSpec) -> list[Point]:
    """The parameters of each member, in order; `Invalid` names the field that makes none."""
    try:
        space = parse_space(sweep.params)
        return grid(space) if sweep.method is Method.GRID else draw(space, sweep.members or 0, sweep.seed)
    except SearchError as error:
        raise Invalid.field(error.field, error.problem) from error
