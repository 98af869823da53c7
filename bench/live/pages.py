"""Waiting times of users in Chromium: for the lines of a job, and for the first line of a folder that they submit."""

from __future__ import annotations

import os
import secrets
import shutil

from bench import reader, submitter
from bench.figures import Series
from bench.live import programs
from bench.live.ingest import writing
from bench.live.jobs import spec_of
from bench.live.programs import Program
from bench.live.stack import ACTOR, NAME, Stack, StackError, new_token, new_user
from bench.plan import LINE_COMMAND, Plan, read_line_time
from muster.accounts.models import User
from muster.tenants.models import Tenant
from muster.tenants.roles import Role
from muster.tenants.services import add_member
from muster_client.client import Client

_CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_POOL = _READER = "page"
_SUBMITTER = "submitter"
# So long may it take from the job's submission until its page is open.
_OPENED_WITHIN_S = 15.0


class NoChromium(RuntimeError):
    """There is no browser to measure with; the message says what to do."""


def measure(stack: Stack, plan: Plan) -> Series:
    """Milliseconds from each line's print until it is in view, without and with the writers, and what they wrote."""
    user, orders = new_reader(stack, _READER)
    with programs.running("bench.reader", orders) as program, Client(stack.url, new_token(user)) as client:
        program.next("signed_in")
        # Else what the writers before wrote goes to the disk meanwhile, and the database waits for that.
        os.sync()
        alone = _delays_ms(program, client, plan)
        with writing(stack, client, pool_name=_POOL) as end:
            beside = _delays_ms(program, client, plan)
            rate = end()
    return {"log_page_ms": alone, "log_page_busy_ms": beside, "log_page_mb_s": [rate]}


def measure_submit(stack: Stack, plan: Plan) -> Series:
    """Milliseconds from pressing *Submit job*, with a folder chosen, until the first line of the log is in view."""
    _, orders = new_reader(stack, _SUBMITTER)
    with programs.running("bench.submitter", orders) as program:
        program.next("signed_in")
        took: list[float] = []
        for number in range(plan.warm_ups + plan.page_submits):
            program.tell(submitter.Submission(f"folder-{number}"))
            took.append(program.next("took_ms")["took_ms"])
    return {"page_submit_ms": took[plan.warm_ups :]}


def new_reader(stack: Stack, name: str) -> tuple[User, reader.Orders]:
    """A new member of the tenant, and the orders to a program that signs in as this user."""
    chromium = next(filter(None, map(shutil.which, _CHROMIUMS)), None)
    if chromium is None:
        raise NoChromium("there is no Chromium: apt-get install chromium")
    password = secrets.token_urlsafe(24)
    user = new_user(name, password=password)
    add_member(tenant=Tenant.objects.get(name=NAME), user=user, role=Role.MEMBER, actor=ACTOR)
    return user, reader.Orders(stack.url, user.username, password, chromium)


def _delays_ms(program: Program, client: Client, plan: Plan) -> list[float]:
    lines = int(plan.ingest_s * plan.lines_a_second)
    printed = lines + int(_OPENED_WITHIN_S * plan.lines_a_second)
    job = client.submit(spec_of(f"set -- {printed}; {LINE_COMMAND}"))
    program.tell(reader.Reading(job["id"], lines))
    shown = dict(program.next("shown")["shown"])
    log = b"".join(page.data for page in client.read_logs(job["id"])).decode()
    client.cancel(job["id"])
    first, last = min(shown), max(shown)
    times = [read_line_time(line) for line in log[: log.rfind("\n")].splitlines()]
    unseen = [time for time in times if first <= time <= last and time not in shown]
    if unseen:
        raise StackError(f"the page did not show {len(unseen)} of {len(shown) + len(unseen)} lines of job {job['id']}")
    return [(at - time) * 1000 for time, at in shown.items()]
