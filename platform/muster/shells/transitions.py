"""The only function that changes the state of a shell, with its event in the same transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from muster.common.models import DatabaseNow
from muster.events.services import record, wake_node
from muster.shells.models import Shell, ShellReason
from scheduler.model.lifecycle import ShellState, require_move


def move_shell(
    shell: Shell,
    target: ShellState,
    *,
    actor: str,
    reason: ShellReason | None = None,
    detail: str = "",
    exit_code: int | None = None,
    **fields: Any,
) -> bool:
    """Move the shell from the state its caller saw; False if it is no longer in that state.

    The shell comes with its job, and its allocation with its attempt.
    """
    source = ShellState(shell.state)
    require_move("shell", source, target)
    if target is ShellState.OPEN:
        fields["opened_at"] = DatabaseNow()
    if target is ShellState.CLOSED:
        fields |= {"closed_at": DatabaseNow(), "reason": reason, "detail": detail[:500], "exit_code": exit_code}
        fields["command"] = []
    with transaction.atomic():
        if not Shell.objects.filter(pk=shell.pk, state=source).update(state=target, **fields):
            return False
        told: dict[str, Any] = event_data(shell)
        if target is ShellState.CLOSED:
            told |= {"reason": reason, "detail": detail[:500], "exit_code": exit_code}
        record(f"shell.{target}", actor=actor, tenant_id=shell.job.tenant_id, job_id=shell.job_id, data=told)
        wake_node(shell.allocation.node_id)
    shell.state = target
    return True


def event_data(shell: Shell) -> dict[str, Any]:
    """The data of a shell's event: its owner and place, and nothing of what is done in it."""
    allocation = shell.allocation
    return {
        "shell": shell.pk,
        "user": shell.user.username,
        "attempt": allocation.attempt.number,
        "rank": allocation.rank,
    }
