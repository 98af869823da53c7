"""The platform: a Django project whose apps import one another downwards only (see pyproject.toml)."""

from muster.celery import celery_app

__all__ = ["celery_app"]
