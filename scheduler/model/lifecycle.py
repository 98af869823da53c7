"""The states of jobs and their groups, attempts, allocations, nodes, leases, offers and shells, and the transitions
between them.

Each state machine is an enum with a transition table. docs/reference/states.md draws the tables, and a test compares
both. A transition that is not in its table is a `TransitionError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """The state that the platform observes of a job; `Desired` is what its owner wants."""

    QUEUED = "queued"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Desired(StrEnum):
    """The state that the owner of a job wants."""

    RUN = "run"
    STOP = "stop"


class GroupKind(StrEnum):
    """Kinds of job groups."""

    SWEEP = "sweep"
    """Its members are the same job with other parameters: a hyper-parameter sweep."""
    ARRAY = "array"
    """Its members are the same job with another index, and maybe other parameters."""


class GroupState(StrEnum):
    """The state of a job group as a whole."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Stage(StrEnum):
    """Stages of an attempt: a screening run on a few GPUs or a full run."""

    SCREENING = "screening"
    FULL = "full"


class JobClass(StrEnum):
    """Classes of jobs: within their virtual cluster's quota, or borrowing GPUs and preemptible."""

    GUARANTEED = "guaranteed"
    OPPORTUNISTIC = "opportunistic"


class Locality(StrEnum):
    """The required closeness of a job's GPUs."""

    NODE = "node"
    RACK = "rack"
    ANY = "any"


class AttemptState(StrEnum):
    """The state of one try to run a job: a gang of allocations that start and end together."""

    PLACED = "placed"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LOST = "lost"


class AllocationState(StrEnum):
    """The state of one rank's hold on the GPUs of a node."""

    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"


class Observed(StrEnum):
    """The agent's last report about a rank's processes."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    KEPT = "kept"
    """Its command failed, and its container or folder is retained for inspection."""
    EXITED = "exited"


class NodeAdmin(StrEnum):
    """The state that operators want of a node."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    RETIRED = "retired"


class NodeHealth(StrEnum):
    """The state that the platform observes of a node."""

    PENDING = "pending"
    READY = "ready"
    SUSPECT = "suspect"
    DOWN = "down"


class LeaseState(StrEnum):
    """The right of one registration (epoch) of an agent to speak for its node."""

    GRANTED = "granted"
    RENEWED = "renewed"
    EXPIRED = "expired"
    VOID = "void"
    """The platform was restored from a backup: the agent has to register again before it may report."""


class OfferState(StrEnum):
    """The state of an offer of GPUs to a framework: `scheduler.outside.offers`."""

    STANDING = "standing"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    EXPIRED = "expired"
    RESCINDED = "rescinded"


class ShellState(StrEnum):
    """The state of a shell in a running job."""

    REQUESTED = "requested"
    OPEN = "open"
    CLOSED = "closed"


class HoldReason(StrEnum):
    """The dominant pending reason: why a cycle did not place a waiting job."""

    QUOTA = "quota"
    QUOTA_TOO_SMALL = "quota_too_small"
    INFEASIBLE = "infeasible"
    NO_FREE_GPUS = "no_free_gpus"
    FRAGMENTED = "fragmented"
    BEHIND_HEAD = "behind_head"
    CPU_OR_MEMORY = "cpu_or_memory"
    BACK_OFF = "back_off"
    STILL_STOPPING = "still_stopping"
    CYCLE_LIMIT = "cycle_limit"
    RESERVED = "reserved"
    REFUSED = "refused"
    RUNTIME = "runtime"
    MAINTENANCE = "maintenance"
    SINGLE_USER = "single_user"
    NAMED_NODES = "named_nodes"
    """The nodes that the job names have no room, or the room is on nodes that it excludes."""
    POLICY = "policy"
    """The policy serves other jobs for now; the sentence is its own."""
    GROUP = "group"
    """Its job group runs as many members as it may, or has paused this one."""
    DEPENDENCY = "dependency"
    """It waits for other jobs: `scheduler.model.dependencies`."""
    BEGIN = "begin"
    """The time at which it may begin has not come."""
    HELD = "held"
    """Its owner or a manager holds it back until it is released."""
    CAP = "cap"
    """A cap on its owner: GPUs or jobs at once, or GPU-hours of the month."""


class RuntimeNeed(StrEnum):
    """The form in which a job starts, which a node must support."""

    ANY = "any"
    """Any node will do."""
    PLAIN = "plain"
    """No image: a process, or a container of the node's default image."""
    IMAGE = "image"
    """A container of the job's image."""
    CONTAINER = "container"
    """A container of the node's default image; the job names none."""
    IMAGE_VOLUMES = "image_volumes"
    """A container of the job's image, with volumes."""
    CONTAINER_VOLUMES = "container_volumes"
    """A container of the node's default image, with volumes."""


Table = Mapping[StrEnum, frozenset[StrEnum]]


def _table(moves: dict[StrEnum, tuple[StrEnum, ...]]) -> Table:
    return {source: frozenset(targets) for source, targets in moves.items()}


_J, _A, _L, _N, _H, _E = JobState, AttemptState, AllocationState, NodeAdmin, NodeHealth, LeaseState
_O = OfferState

JOB_MOVES: Table = _table(
    {
        _J.QUEUED: (_J.ACTIVE, _J.CANCELLED, _J.FAILED),
        _J.ACTIVE: (_J.QUEUED, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED),
        _J.SUCCEEDED: (),
        _J.FAILED: (),
        _J.CANCELLED: (),
    }
)

GROUP_MOVES: Table = _table(
    {
        GroupState.ACTIVE: (GroupState.SUCCEEDED, GroupState.FAILED, GroupState.CANCELLED),
        GroupState.SUCCEEDED: (),
        GroupState.FAILED: (),
        GroupState.CANCELLED: (),
    }
)

RETRIED_FROM = frozenset({_J.FAILED, _J.CANCELLED})
"""Final states of a job that is a member of a group, out of which the retry of a user queues it again."""

ATTEMPT_MOVES: Table = _table(
    {
        _A.PLACED: (_A.STARTING, _A.STOPPING, _A.CANCELLED, _A.PREEMPTED, _A.LOST),
        _A.STARTING: (_A.RUNNING, _A.STOPPING, _A.FAILED, _A.LOST),
        _A.RUNNING: (_A.STOPPING, _A.SUCCEEDED, _A.FAILED, _A.LOST),
        _A.STOPPING: (_A.SUCCEEDED, _A.FAILED, _A.CANCELLED, _A.PREEMPTED, _A.LOST),
        _A.SUCCEEDED: (),
        _A.FAILED: (),
        _A.CANCELLED: (),
        _A.PREEMPTED: (),
        _A.LOST: (),
    }
)

ALLOCATION_MOVES: Table = _table(
    {
        _L.RESERVED: (_L.ACTIVE, _L.RELEASED),
        _L.ACTIVE: (_L.RELEASING, _L.RELEASED),
        _L.RELEASING: (_L.RELEASED,),
        _L.RELEASED: (),
    }
)

NODE_ADMIN_MOVES: Table = _table(
    {
        _N.ACTIVE: (_N.CORDONED, _N.DRAINING),
        _N.CORDONED: (_N.ACTIVE, _N.DRAINING, _N.RETIRED),
        _N.DRAINING: (_N.ACTIVE, _N.CORDONED),
        _N.RETIRED: (),
    }
)

NODE_HEALTH_MOVES: Table = _table(
    {
        _H.PENDING: (_H.READY,),
        _H.READY: (_H.SUSPECT,),
        _H.SUSPECT: (_H.READY, _H.DOWN),
        _H.DOWN: (_H.READY,),
    }
)

LEASE_MOVES: Table = _table(
    {
        _E.GRANTED: (_E.RENEWED, _E.EXPIRED, _E.VOID),
        _E.RENEWED: (_E.RENEWED, _E.EXPIRED, _E.VOID),
        # A late heartbeat renews the lease too: the epoch tells registrations apart.
        _E.EXPIRED: (_E.RENEWED, _E.VOID),
        _E.VOID: (),
    }
)

OFFER_MOVES: Table = _table(
    {
        _O.STANDING: (_O.ACCEPTED, _O.DECLINED, _O.EXPIRED, _O.RESCINDED),
        _O.ACCEPTED: (),
        _O.DECLINED: (),
        _O.EXPIRED: (),
        _O.RESCINDED: (),
    }
)

SHELL_MOVES: Table = _table(
    {
        ShellState.REQUESTED: (ShellState.OPEN, ShellState.CLOSED),
        ShellState.OPEN: (ShellState.CLOSED,),
        ShellState.CLOSED: (),
    }
)

TABLES: Mapping[str, Table] = {
    "job": JOB_MOVES,
    "group": GROUP_MOVES,
    "attempt": ATTEMPT_MOVES,
    "allocation": ALLOCATION_MOVES,
    "node_admin": NODE_ADMIN_MOVES,
    "node_health": NODE_HEALTH_MOVES,
    "lease": LEASE_MOVES,
    "offer": OFFER_MOVES,
    "shell": SHELL_MOVES,
}

JOB_TERMINAL = frozenset(state for state, targets in JOB_MOVES.items() if not targets)
ATTEMPT_TERMINAL = frozenset(state for state, targets in ATTEMPT_MOVES.items() if not targets)
ATTEMPT_LIVE = frozenset(ATTEMPT_MOVES) - ATTEMPT_TERMINAL
SHELL_LIVE = frozenset({ShellState.REQUESTED, ShellState.OPEN})


class TransitionError(Exception):
    """A transition that the table of its object does not have."""

    def __init__(self, table: str, source: StrEnum, target: StrEnum) -> None:
        self.table, self.source, self.target = table, source, target
        allowed = ", ".join(sorted(TABLES[table][source])) or "nothing"
        super().__init__(f"{table}: {source} cannot become {target}; it can become {allowed}")


def require_move(table: str, source: StrEnum, target: StrEnum) -> None:
    """Check that the table has a transition.

    Raises:
        TransitionError: it does not.
    """
    if target not in TABLES[table][source]:
        raise TransitionError(table, source, target)
