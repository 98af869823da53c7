"""`manage.py reseal_servers`: a new key was put in front of MUSTER_ENCRYPTION_KEYS, and the old one is to go."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from muster.common.sealed import Unreadable
from muster.links.services import reseal_servers


class Command(BaseCommand):
    """Encrypts the stored secrets anew."""

    help = "Encrypts what is stored of servers over SSH by the first of MUSTER_ENCRYPTION_KEYS."

    def handle(self, *args: object, **options: object) -> None:
        """Every server."""
        try:
            count = reseal_servers()
        except Unreadable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"The secrets of {count} servers are encrypted by the first key.")
