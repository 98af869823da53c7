"""The records that every part of the scheduler shares: snapshots, jobs, nodes, plans and their invariants.

The package exports the records of a snapshot; import plans, states and invariants from their modules.
"""

from scheduler.model.caps import Cap
from scheduler.model.jobs import AllocationView, Group, Job, KnownRate, Rate, Reservation, Running
from scheduler.model.lifecycle import Locality
from scheduler.model.nodes import HALF, SLOTS, Gpu, Node
from scheduler.model.snapshot import (
    Organisation,
    PoolState,
    Snapshot,
    Tenant,
    View,
    VirtualCluster,
)
