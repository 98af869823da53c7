"""Layout of the cluster under test: nodes, quotas, and the two paces that its pool can have."""

from __future__ import annotations

from collections.abc import Mapping

from tests.profiles import IS_LONG

# How many times as long as usual the tests go on killing processes.
LONG = IS_LONG
ROUNDS = 5 if LONG else 1
GPU_TYPE = "A100"
NODES = ("n1", "n2")
GPUS_PER_NODE = 4
LOG_CAP_BYTES = 8 << 20
# Users, their tenants' virtual clusters, and how many GPUs those may use. The first one is the default.
QUOTAS: Mapping[str, int] = {"red": 6, "blue": 2}

# Timers of the pool. With the patient ones a machine that is busy with other tests loses no node; with the hasty
# ones a node that is gone is given up within seconds.
PATIENT: Mapping[str, float] = {
    "beat_s": 0.5,
    "suspect_after_s": 4,
    "unreachable_after_s": 8,
    "stop_after_s": 30,
    "fence_margin_s": 1,
    "claim_timeout_s": 30,
    "orphan_grace_s": 1,
}
HASTY: Mapping[str, float] = {
    "beat_s": 0.3,
    "suspect_after_s": 2,
    "unreachable_after_s": 4,
    "stop_after_s": 8,
    "fence_margin_s": 1,
    "claim_timeout_s": 6,
    "orphan_grace_s": 1,
}
