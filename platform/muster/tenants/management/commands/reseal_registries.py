"""`manage.py reseal_registries`: a new key was put in front of MUSTER_ENCRYPTION_KEYS, and the old one is to go."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from muster.common.sealed import Unreadable
from muster.tenants.registries import reseal_registries


class Command(BaseCommand):
    """Encrypts the stored passwords anew."""

    help = "Encrypts the tenants' credentials for registries by the first of MUSTER_ENCRYPTION_KEYS."

    def handle(self, *args: object, **options: object) -> None:
        """All credentials."""
        try:
            count = reseal_registries()
        except Unreadable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{count} credentials for registries are encrypted by the first key.")
