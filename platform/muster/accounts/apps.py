from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from muster.accounts.checks import check_uid_range


class AccountsConfig(AppConfig):
    name = "muster.accounts"

    def ready(self) -> None:
        """Register the system checks."""
        register(check_uid_range)
