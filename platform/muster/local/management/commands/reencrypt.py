"""`manage.py reencrypt`: encrypts all stored secrets by the first of MUSTER_ENCRYPTION_KEYS."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from muster.common.sealed import Unreadable
from muster.local.rotation import reencrypt


class Command(BaseCommand):
    help = "Encrypts all stored secrets by the first of MUSTER_ENCRYPTION_KEYS, so that the other keys can be removed."

    def handle(self, *args: object, **options: object) -> None:
        try:
            count = reencrypt()
        except Unreadable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{count} secrets are encrypted by the first key. Remove the other keys and restart.")
