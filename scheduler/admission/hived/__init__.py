"""Cells: GPUs that lie together, promised to virtual clusters as they need them (Zhao et al., HiveD, OSDI 2020)."""

from scheduler.admission.hived.admission import CELL_TAKEN, Hived
from scheduler.admission.hived.config import CellConfig, CellConfigError
from scheduler.admission.hived.ledger import CellLedger
from scheduler.admission.hived.look import CellState, Look, PhysicalBox, VirtualBox

PLUGIN = Hived
