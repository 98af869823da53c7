"""The Celery application: messages are hints that carry ids; Postgres is the record."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import task_postrun, task_prerun, worker_ready, worker_shutting_down
from django.conf import settings
from django.db import close_old_connections

from muster.common.periodic import Clock, conditions_of, consumes

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
# A worker would run Django's system checks when it starts, and drop what they find.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

celery_app = Celery("muster")
celery_app.config_from_object("django.conf:settings", namespace="CELERY")
celery_app.autodiscover_tasks()

_clocks: list[Clock] = []


@task_prerun.connect
@task_postrun.connect
def _keep_usable_connections(**_: object) -> None:
    """Close the thread's database connection if it is old or broken, as Django does before and after a request.

    Celery would close every connection (`CELERY_DB_REUSE_MAX`): a new one takes Postgres longer than most cycles, and
    what is prepared, and known by its rows' versions, would be lost with each.
    """
    close_old_connections()


@worker_ready.connect
def _start_clocks(sender: object = None, **_: object) -> None:
    """The worker of the queue `default` does the periodic tasks."""
    if not consumes(sender, settings.CELERY_TASK_DEFAULT_QUEUE):
        return
    for number, periods in enumerate(settings.PERIODIC_TASKS):
        clock = Clock(number, periods, lambda name: celery_app.tasks[name](), conditions_of(periods))
        _clocks.append(clock)
        clock.start()


@worker_shutting_down.connect
def _stop_clocks(**_: object) -> None:
    for clock in _clocks:
        clock.stop()
