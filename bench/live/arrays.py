"""Arrays beside single jobs in one run: members and jobs a second in turns, a large array submitted, and its page."""

from __future__ import annotations

import time

from bench import visitor
from bench.figures import CLIENT, Series
from bench.live import programs
from bench.live.jobs import await_all_ended, batch, newest_job, rate, spec_of
from bench.live.pages import new_reader
from bench.live.stack import ACTOR, NAME, Stack, processor_of_groups
from bench.plan import Plan
from bench.samples import median
from muster.fleet.services import create_pool
from muster.tenants.models import Tenant
from muster.tenants.services import create_virtual_cluster
from muster_client.client import Client

MEMBERS = 10_000
_VISITOR = "visitor"


def measure_rates(stack: Stack, plan: Plan) -> Series:
    """Members of an array and single jobs a second, submitted at once, in turns; processor time of each; the ratio."""
    found: Series = {"array_members": [], "array_jobs": [], "array_member_cpu_ms": [], "array_job_cpu_ms": []}
    with Client(stack.url, stack.token) as client:
        for _ in range(plan.bursts):
            for what, run in (("member", lambda: _array(client, plan.jobs)), ("job", lambda: batch(stack, plan.jobs))):
                before = processor_of_groups()
                found[f"array_{what}s"].append(run())
                spent = {name: seconds - before[name] for name, seconds in processor_of_groups().items()}
                found[f"array_{what}_cpu_ms"].append(sum(spent.values()) * 1000 / plan.jobs)
                for name, seconds in spent.items():
                    if name != CLIENT:
                        found.setdefault(f"array_{what}_{name}_ms", []).append(seconds * 1000 / plan.jobs)
    found["array_ratio"] = [median(found["array_members"]) / median(found["array_jobs"])]
    return found


def measure_submit(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of the call that submits a large array, to a pool without nodes."""
    pool, tenant = create_pool(name="large", actor=ACTOR), Tenant.objects.get(name=NAME)
    create_virtual_cluster(tenant=tenant, pool=pool, name="large", actor=ACTOR)
    took: list[float] = []
    with Client(stack.url, stack.token) as client:
        for _ in range(plan.reports):
            start = time.perf_counter()
            array = client.submit_array({**spec_of("true", vc="large"), "array": f"1-{MEMBERS}"})
            took.append((time.perf_counter() - start) * 1000)
            client.cancel_array(array["id"])
            await_all_ended()
    return {"array_submit_ms": took}


def measure_page(stack: Stack, plan: Plan) -> Series:
    """Milliseconds from opening a large array's page until Chromium has painted its cells."""
    _, orders = new_reader(stack, _VISITOR)
    with Client(stack.url, stack.token) as client, programs.running("bench.visitor", orders) as program:
        program.next("signed_in")
        array = client.submit_array({**spec_of("true", vc="large"), "array": f"1-{MEMBERS}"})
        took: list[float] = []
        for _ in range(plan.warm_ups + plan.page_submits):
            program.tell(visitor.Visit(array["id"]))
            took.append(program.next("took_ms")["took_ms"])
        client.cancel_array(array["id"])
        await_all_ended()
    return {"array_page_ms": took[plan.warm_ups :]}


def _array(client: Client, members: int) -> float:
    last_before, start = newest_job(), time.time()
    client.submit_array({**spec_of("true"), "array": f"1-{members}"})
    return rate(last_before, start, members)
