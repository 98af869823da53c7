"""Arrays as tables and lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from muster_client.local.terminal import clean
from muster_client.show.groups import group_state
from muster_client.show.marks import params_text
from muster_client.show.tables import make_table, sheet, state_text, text_of
from muster_client.show.times import ago, moment_text
from muster_client.show.usage import hours

if TYPE_CHECKING:
    from muster_client.answers.arrays import Array, ArrayMember


def array_sheet(array: Array, now: datetime) -> RenderableType:
    """Return everything about one array but its members."""
    members = array["members"]
    counts = [f"{count} {clean(state)}" for state, count in members.items() if state != "total" and count]
    rows: list[tuple[str, RenderableType]] = [
        ("Array", Text(f"{array['id']}  {clean(array['name'])}", style="bold")),
        ("State", state_text(group_state(array["state"], members["running"]))),
    ]
    if array["reason"]:
        rows.append(("Reason", text_of(array["reason"])))
    rows += [
        ("Owner", text_of(f"{array['owner']} ({array['tenant']})")),
        ("Virtual cluster", text_of(array["vc"])),
        ("Indices", Text(f"{array['first_index']} to {array['last_index']}")),
        ("Members", text_of(f"{members['total']}, {array['parallel']} at once: {', '.join(counts)}")),
        ("GPU-hours", Text(hours(array["gpu_hours"]))),
    ]
    if array["cloned_from"] is not None:
        rows.append(("Clone of", Text(f"array {array['cloned_from']}")))
    rows.append(("Submitted", Text(f"{moment_text(array['submitted_at'])} ({ago(array['submitted_at'], now)})")))
    if array["ended_at"]:
        rows.append(("Ended", Text(f"{moment_text(array['ended_at'])} ({ago(array['ended_at'], now)})")))
    return sheet(rows)


def array_members_table(array: Array, members: Sequence[ArrayMember]) -> RenderableType:
    """Return a table with one line for each member."""
    table = make_table("MEMBER", "JOB", "STATE", "PARAMS", "WHY")
    for member in members:
        table.add_row(
            f"{array['id']}_{member['index']}",
            str(member["job"]),
            state_text(member["state"]),
            text_of(params_text(member["params"]) or "-"),
            text_of(member["why"] or "-"),
        )
    return table
