"""Sweeps as tables and lines for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from muster_client.local.terminal import clean
from muster_client.show.groups import group_state
from muster_client.show.marks import params_text, value_text
from muster_client.show.tables import make_table, sheet, state_text, text_of
from muster_client.show.times import ago, moment_text
from muster_client.show.usage import hours

if TYPE_CHECKING:
    from muster_client.answers.sweeps import Sweep, SweepInList, SweepMember

_NAME_CHARS = 40


def sweeps_table(sweeps: Sequence[SweepInList], now: datetime) -> RenderableType:
    """Return a table with one line for each sweep."""
    if not sweeps:
        return Text("No sweeps.")
    table = make_table(
        "ID", "NAME", "STATE", "VC", "OWNER", "METHOD", "ENDED", "BEST", "GPU-HOURS", "SAVED", "SUBMITTED"
    )
    for sweep in sweeps:
        members, best = sweep["members"], sweep["best"]
        ended = members["total"] - members["waiting"] - members["running"] - members["paused"]
        table.add_row(
            str(sweep["id"]),
            text_of(sweep["name"], _NAME_CHARS),
            state_text(group_state(sweep["state"], members["running"])),
            text_of(sweep["vc"]),
            text_of(sweep["owner"]),
            text_of(sweep["method"]),
            f"{ended}/{members['total']}",
            "-" if best is None else f"{clean(sweep['metric'])} {value_text(best['value'])}",
            hours(sweep["gpu_hours"]),
            hours(sweep["saved_gpu_hours"]),
            ago(sweep["submitted_at"], now),
        )
    return table


def sweep_sheet(sweep: Sweep, now: datetime) -> RenderableType:
    """Return everything about one sweep but its members and rungs."""
    counts = [f"{count} {clean(state)}" for state, count in sweep["members"].items() if state != "total" and count]
    rows: list[tuple[str, RenderableType]] = [
        ("Sweep", Text(f"{sweep['id']}  {clean(sweep['name'])}", style="bold")),
        ("State", state_text(group_state(sweep["state"], sweep["members"].get("running", 0)))),
    ]
    if sweep["reason"]:
        rows.append(("Reason", text_of(sweep["reason"])))
    rows += [
        ("Owner", text_of(f"{sweep['owner']} ({sweep['tenant']})")),
        ("Virtual cluster", text_of(sweep["vc"])),
        ("Method", text_of(f"{sweep['method']}, {sweep['goal']} of {sweep['metric']}")),
        ("Members", text_of(f"{sweep['members']['total']}, {sweep['parallel']} at once: {', '.join(counts)}")),
        ("Best", text_of(_best(sweep))),
        ("GPU-hours", Text(f"{hours(sweep['gpu_hours'])}; early stops saved {hours(sweep['saved_gpu_hours'])}")),
    ]
    rho = sweep.get("rho")
    if rho and (rho["quota"] is not None or rho["cluster"] is not None):
        rows.append(("Fairness", text_of(rho["sentence"])))
    if sweep["cloned_from"] is not None:
        rows.append(("Clone of", Text(f"sweep {sweep['cloned_from']}")))
    rows.append(("Submitted", Text(f"{moment_text(sweep['submitted_at'])} ({ago(sweep['submitted_at'], now)})")))
    if sweep["ended_at"]:
        rows.append(("Ended", Text(f"{moment_text(sweep['ended_at'])} ({ago(sweep['ended_at'], now)})")))
    return sheet(rows)


def rungs_table(sweep: Sweep) -> RenderableType:
    """Return how many members have reached each rung, and how many of them went on."""
    table = make_table("RUNG", "STEPS", "REACHED", "KEPT")
    for number, rung in enumerate(sweep.get("rungs", []), 1):
        table.add_row(str(number), value_text(rung["steps"]), str(rung["reached"]), str(rung["kept"]))
    return table


def by_value(sweep: Sweep, members: Sequence[SweepMember]) -> list[SweepMember]:
    """Return the members in the order of their values, the best first and those without one last."""
    sign = -1 if sweep["goal"] == "max" else 1

    def place(member: SweepMember) -> tuple[float, int]:
        value = member["value"]
        return (math.inf if value is None else sign * value), member["member"]

    return sorted(members, key=place)


def members_table(sweep: Sweep, members: Sequence[SweepMember]) -> RenderableType:
    """Return a table with one line for each member."""
    heads = ("MEMBER", "JOB", "STATE", "VALUE", "STEP", "GPU-HOURS", *map(clean, sweep["params"]), "WHY")
    table = make_table(*heads)
    for member in members:
        table.add_row(
            str(member["member"]),
            str(member["job"]),
            state_text(member["state"]),
            "-" if member["value"] is None else value_text(member["value"]),
            "-" if member["step"] is None else value_text(member["step"]),
            hours(member["gpu_hours"]),
            *(value_text(member["params"].get(name, "-")) for name in sweep["params"]),
            text_of(member["why"] or "-"),
        )
    return table


def _best(sweep: Sweep) -> str:
    best = sweep["best"]
    if best is None:
        return f"no member has reported {sweep['metric']} yet"
    step = "" if best["step"] is None else f" at step {value_text(best['step'])}"
    which = f"member {best['member']}, job {best['job']}"
    return f"{sweep['metric']} {value_text(best['value'])}{step}, {which}: {params_text(best['params'])}"
