"""The Celery application: messages are hints that carry ids; Postgres is the record."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")

celery_app = Celery("muster")
celery_app.config_from_object("django.conf:settings", namespace="CELERY")
celery_app.autodiscover_tasks()
