"""The interval between checkpoints, from the cost of one and the failure rate of the job's nodes.

J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974, gives sqrt(2 C M) for a
checkpoint cost C and a mean time between failures M. J. T. Daly, "A higher order estimate of the optimum checkpoint
interval for restart dumps", Future Generation Computer Systems 22(3), 2006, refines it for costs that are not small
against M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PRIOR_FAILURES, PRIOR_NODE_HOURS = 1.0, 5_000.0
"""The prior: it weighs as much as one failure observed in that many node hours. The training of Llama 3 had 419
unexpected interruptions in 54 days on 16384 GPUs, which is one in about 6300 node hours (Meta, "The Llama 3 Herd of
Models", 2024).
"""


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between checkpoints, in seconds, and the figures behind it."""

    young_s: float
    daly_s: float
    cost_s: float
    mtbf_s: float
    """The mean time between failures of the whole job."""
    lost_share: float
    """The share of time spent on checkpoints and repeated work at that interval, to first order."""


def failures_per_node_hour(failures: int, node_hours: float) -> float:
    """The failure rate from observations and the prior: the mean of the resulting gamma distribution."""
    return (PRIOR_FAILURES + failures) / (PRIOR_NODE_HOURS + node_hours)


def interval_of(*, cost_s: float, nodes: int, per_node_hour: float) -> Interval:
    """The checkpoint interval for a job on `nodes` nodes, each with this failure rate."""
    mtbf_s = 3600.0 / (per_node_hour * nodes)
    young = math.sqrt(2 * cost_s * mtbf_s)
    daly = daly_s(cost_s, mtbf_s)
    lost = min(1.0, cost_s / (daly + cost_s) + (daly + cost_s) / (2 * mtbf_s)) if daly else 1.0
    return Interval(young, daly, cost_s, mtbf_s, lost)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's equation 37: the working time between two checkpoints."""
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = cost_s / (2 * mtbf_s)
    return math.sqrt(2 * cost_s * mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s
