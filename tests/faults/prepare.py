"""Preparation of a cluster under test, as a program: `python -m tests.faults.prepare NODE…` in its environment.

It prints one JSON document as soon as agents and users can come, and ends when the GPUs of every node have arrived
and the virtual clusters may use them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from muster.accounts.services import create_token, create_user  # noqa: E402
from muster.fleet.models import Pool  # noqa: E402
from muster.fleet.selectors import gpus_by_type  # noqa: E402
from muster.fleet.services import create_node, create_pool  # noqa: E402
from muster.tenants.models import VirtualCluster  # noqa: E402
from muster.tenants.roles import Role  # noqa: E402
from muster.tenants.services import add_member, create_tenant, create_virtual_cluster, set_quota  # noqa: E402
from tests.faults.layout import GPU_TYPE, GPUS_PER_NODE, LOG_CAP_BYTES, PATIENT, QUOTAS  # noqa: E402

ACTOR = "tests"
PASSWORD = "not a secret: this cluster lives for a minute"
PATIENCE_S = 60


def main(nodes: Sequence[str]) -> int:
    """Prepares the cluster; 0 when it can be used."""
    call_command("migrate", interactive=False, verbosity=0)
    # Many tests let jobs fail on purpose, which must not cost the others their nodes.
    pool = create_pool(name="pool", actor=ACTOR, log_max_bytes_per_job=LOG_CAP_BYTES, black_hole_jobs=0, **PATIENT)
    joins = {name: create_node(pool=pool, name=name, actor=ACTOR)[1] for name in nodes}
    tokens = {}
    for name in QUOTAS:
        tenant = create_tenant(name=f"{name}-tenant", actor=ACTOR)
        create_virtual_cluster(tenant=tenant, pool=pool, name=name, actor=ACTOR)
        user = create_user(username=name, password=PASSWORD, actor=ACTOR)
        add_member(tenant=tenant, user=user, role=Role.MEMBER, actor=ACTOR)
        tokens[name] = create_token(user=user, name="tests", expires_in=timedelta(days=1))[1]
    sys.stdout.write(json.dumps({"joins": joins, "tokens": tokens}) + "\n")
    sys.stdout.flush()
    return give_quotas(pool, gpus=len(nodes) * GPUS_PER_NODE)


def give_quotas(pool: Pool, *, gpus: int) -> int:
    """Wait until the pool has `gpus` GPUs and set the quotas; returns 1 if they do not come in time."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 10):
        if gpus_by_type(pool.pk).get(GPU_TYPE) == gpus:
            for name, quota in QUOTAS.items():
                set_quota(vc=VirtualCluster.objects.get(name=name), gpu_type=GPU_TYPE, gpus=quota, actor=ACTOR)
            return 0
        pause.wait(0.1)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
