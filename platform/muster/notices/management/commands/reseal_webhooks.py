"""`manage.py reseal_webhooks`: a new key was put in front of MUSTER_ENCRYPTION_KEYS, and the old one is to go."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from muster.common.sealed import Unreadable
from muster.notices.webhooks import reseal_webhooks


class Command(BaseCommand):
    """Encrypts the stored secrets anew."""

    help = "Encrypts the secrets of webhooks by the first of MUSTER_ENCRYPTION_KEYS."

    def handle(self, *args: object, **options: object) -> None:
        """All secrets."""
        try:
            count = reseal_webhooks()
        except Unreadable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"The secrets of {count} webhooks are encrypted by the first key.")
