"""The workshop: the engine's own parts, for policies that choose nodes and GPUs themselves through `Cycle.context`.

A policy that imports it follows the engine from one release to the next; one that needs only the authors' page,
`scheduler.authoring`, does not.
"""

from scheduler.admission import Ledger
from scheduler.admission.tree.arithmetic import Level, NodeId, Tree
from scheduler.engine.configs import configs_of, sizes_on
from scheduler.engine.context import CycleContext, GivenDemands, backoff_reason
from scheduler.engine.queue import Queues, QueueWalk, equivalence_class
from scheduler.engine.usage import CPUS, MEMORY_MIB, ResourceUsage, Vector, gpus_by_type
from scheduler.model import SLOTS, AllocationView, Node
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.phrases import become_free
from scheduler.model.plan import RESERVATION_S, UNSCHEDULABLE, Denial
from scheduler.model.request import Request
from scheduler.placement import words
from scheduler.placement.capacity import Capacity
from scheduler.placement.colocate import colocate
from scheduler.placement.defragment import defragment
from scheduler.placement.demand import Demand, demand_of
from scheduler.placement.free import Free, FreeNode, Resident
from scheduler.placement.split import divide
