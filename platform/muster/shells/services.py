"""Asking for a shell, and what its agent and its user say of it. The bytes are in `relay`, never in the database."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from muster.accounts.models import ApiToken, User
from muster.common.errors import Conflict, Forbidden, Invalid, NotFound
from muster.common.rows import first_of
from muster.common.secrets import digest, new_secret
from muster.events.services import audit, record, wake_node
from muster.fleet.leases import node_of_credential
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.rights import require_may_act
from muster.shells.models import Shell, ShellReason
from muster.shells.transitions import event_data, move_shell
from scheduler.model.lifecycle import (
    ATTEMPT_LIVE,
    SHELL_LIVE,
    AllocationState,
    AttemptState,
    Desired,
    JobState,
    NodeHealth,
    Observed,
    ShellState,
)

MAX_TERMINAL_SIDE = 1000
MAX_WORDS, MAX_COMMAND_BYTES = 200, 16 << 10
_WIDE_OF_NODES = [f"allocation__node__{column}" for column in ("inventory", "labels", "links")]
_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shell that a user asks for: `command` as arguments, empty for an interactive shell."""

    rank: int = 0
    command: Sequence[str] = ()
    terminal: bool = True
    term: str = "xterm"
    rows: int = 24
    cols: int = 80


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a shell, as its agent reports it."""

    reason: ShellReason
    exit_code: int | None
    detail: str


def request_shell(
    *, user: User, job: Job, wanted: Wanted, api_token: ApiToken | None, address: str | None
) -> tuple[Shell, str]:
    """The shell, which the node's agent will open, and its token, which can be shown this once only."""
    require_may_act(user, job)
    if api_token is None:
        raise Forbidden("ask with an API token: a shell ends when the token that asked for it is revoked")
    if not job.pool.shells:
        raise Forbidden(f"shells are switched off in pool {job.pool.name}: an operator switches `shells` on there")
    _check(wanted)
    secret = new_secret("msh")
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("owner").get(pk=job.pk)
        allocation = _running_rank(job, wanted.rank)
        _require_room(job, user)
        shell = Shell(
            job=job,
            allocation=allocation,
            user=user,
            api_token=api_token,
            address=address,
            token_digest=digest(secret),
            command=list(wanted.command),
            terminal=wanted.terminal,
            term=wanted.term,
            rows=wanted.rows,
            cols=wanted.cols,
        )
        shell.save(force_insert=True)
        told = event_data(shell)
        record("shell.requested", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=told)
        after = {"job": job.pk, "address": address, **told}
        audit("open", "shell", shell.pk, actor=user.username, after=after)
        wake_node(allocation.node_id)
    return shell, secret


def shell_of_token(shell_id: int, secret: str) -> Shell:
    """The shell whose own token this is, whatever its state."""
    shell = first_of(_whole().filter(pk=shell_id))
    if shell is None or not hmac.compare_digest(shell.token_digest, digest(secret)):
        raise NotFound(f"there is no shell {shell_id}, or it has another token")
    return shell


def leave_shell(shell: Shell) -> None:
    """Close the shell because its user went; one that is closed already stays as it is."""
    while shell.state in SHELL_LIVE:
        if move_shell(shell, ShellState.CLOSED, actor=shell.user.username, reason=ShellReason.LEFT):
            return
        shell.refresh_from_db(fields=["state"])


def shell_of_agent(secret: str, *, allocation_id: int, shell_id: int) -> Shell:
    """The shell of an allocation on the secret's node.

    Raises:
        Unauthorized: the secret is not the credential of a node.
        NotFound: the node has no such shell.
    """
    shell = first_of(
        _whole()
        .select_related("allocation__node__lease")
        .defer("job__spec", "job__hold", *_WIDE_OF_NODES)
        .filter(pk=shell_id, allocation_id=allocation_id, allocation__node__credential_digest=digest(secret))
    )
    if shell is None:
        node = node_of_credential(secret)
        raise NotFound(f"node {node.name} has no shell {shell_id}")
    return shell


def require_agent(shell: Shell, *, fence: int, epoch: int) -> None:
    """Return if fence and epoch are those of the agent that runs the shell's rank, and raise `Conflict` if not."""
    if shell.allocation.attempt_id != fence:
        raise Conflict("the fence is not that of this allocation's attempt")
    if shell.allocation.node.lease.epoch != epoch:
        raise Conflict(f"epoch {epoch} of node {shell.allocation.node.name} is superseded")


def require_open(shell: Shell, epoch: int) -> None:
    """Return if this run of the agent has the shell, and raise `Conflict` if not."""
    if shell.state != ShellState.OPEN:
        raise Conflict(f"shell {shell.pk} is {shell.state}")
    if shell.epoch != epoch:
        raise Conflict("another run of the agent has opened this shell")


def open_shell(shell: Shell, *, epoch: int) -> None:
    """Give the shell to this run of the agent; what another run has opened went with that."""
    actor = f"agent of {shell.allocation.node.name}"
    if shell.state == ShellState.OPEN and shell.epoch != epoch:
        detail = "the agent of its node was started again"
        move_shell(shell, ShellState.CLOSED, actor=actor, reason=ShellReason.AGENT_LOST, detail=detail)
    if shell.state == ShellState.REQUESTED and not move_shell(shell, ShellState.OPEN, actor=actor, epoch=epoch):
        shell.refresh_from_db(fields=["state", "epoch"])
    else:
        shell.epoch = epoch
    require_open(shell, epoch)


def end_shell(shell: Shell, *, epoch: int, ended: Ended) -> None:
    """Take the end of the shell from the agent that opened it; told twice it is the same end."""
    if shell.state == ShellState.CLOSED:
        return
    require_open(shell, epoch)
    move_shell(
        shell,
        ShellState.CLOSED,
        actor=f"agent of {shell.allocation.node.name}",
        reason=ended.reason,
        detail=ended.detail,
        exit_code=ended.exit_code,
    )


def _whole() -> QuerySet[Shell]:
    return Shell.objects.select_related("job", "user", "allocation__attempt").defer("job__spec", "job__hold")


def _check(wanted: Wanted) -> None:
    for name, side in (("rows", wanted.rows), ("cols", wanted.cols)):
        require_side(name, side)
    if not _TERM.fullmatch(wanted.term):
        raise Invalid.field("term", "write the name of a kind of terminal, such as xterm-256color")
    size = sum(len(word.encode(errors="surrogatepass")) + 1 for word in wanted.command)
    if len(wanted.command) > MAX_WORDS or size > MAX_COMMAND_BYTES:
        raise Invalid.field("command", f"write at most {MAX_WORDS} words and {MAX_COMMAND_BYTES} bytes")
    if wanted.command and not wanted.command[0]:
        raise Invalid.field("command", "its first word is the program, and is empty")
    if any("\0" in word or not _is_text(word) for word in wanted.command):
        raise Invalid.field("command", "it has characters that no argument can have")


def require_side(name: str, side: int) -> None:
    """Refuse a number of rows or columns that no terminal may have."""
    if not 1 <= side <= MAX_TERMINAL_SIDE:
        raise Invalid.field(name, f"write 1 to {MAX_TERMINAL_SIDE}")


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _running_rank(job: Job, rank: int) -> Allocation:
    """The allocation of the job's rank in which a shell can be opened."""
    if job.state != JobState.ACTIVE:
        raise Conflict(f"job {job.pk} is {job.state}: a shell needs one that runs")
    attempt = first_of(Attempt.objects.filter(job=job, state__in=ATTEMPT_LIVE))
    if attempt is not None and rank >= attempt.request.nodes:
        raise Invalid.field("rank", f"job {job.pk} has the ranks 0 to {attempt.request.nodes - 1}")
    allocation = first_of(Allocation.objects.filter(attempt=attempt, rank=rank).select_related("attempt", "node"))
    if allocation is None or job.desired != Desired.RUN or allocation.attempt.state == AttemptState.STOPPING:
        raise Conflict(f"job {job.pk} is being stopped")
    if allocation.state != AllocationState.ACTIVE or allocation.observed not in {Observed.RUNNING, Observed.KEPT}:
        what = "has ended" if allocation.ended_at or allocation.observed == Observed.EXITED else "has not started yet"
        raise Conflict(f"rank {rank} of job {job.pk} {what}")
    if allocation.node.health == NodeHealth.DOWN:
        raise Conflict(f"node {allocation.node.name}, where rank {rank} runs, cannot be reached")
    return allocation


def _require_room(job: Job, user: User) -> None:
    """Under the lock of the job, and of the user, whose shells may be in several jobs."""
    User.objects.select_for_update(no_key=True).only("pk").get(pk=user.pk)
    live = Shell.objects.filter(state__in=SHELL_LIVE)
    if live.filter(allocation__in=Allocation.objects.filter(attempt__job=job)).count() >= settings.SHELLS_PER_JOB:
        raise Conflict(f"job {job.pk} has {settings.SHELLS_PER_JOB} shells open, and that is the limit")
    if live.filter(user=user).count() >= settings.SHELLS_PER_USER:
        raise Conflict(f"you have {settings.SHELLS_PER_USER} shells open, and that is the limit")
