"""`manage.py rotate_keys`: new secrets for the platform and its agents, in case the old ones have leaked."""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from muster.common.sealed import Unreadable
from muster.local.places import LocalError
from muster.local.rotation import Rotation, rotate_keys
from muster.local.stack import alone

_BY_HAND = {
    "MUSTER_SECRET_KEY": "set a new value, and restart; all users sign in again, and the tokens of running jobs end",
    "MUSTER_METRICS_TOKEN": "set a new value, restart, and give it to what reads /metrics",
    "MUSTER_ENCRYPTION_KEYS": "put a new key in front, restart, run this command once more, and remove the old key",
}


class Command(BaseCommand):
    help = "Replaces the platform's keys and all agents' credentials, and prints join tokens. Stop the platform first."

    def handle(self, *args: object, **options: object) -> None:
        try:
            with alone(settings.STATE_FOLDER):
                rotation = rotate_keys(home=settings.STATE_FOLDER, actor="manage.py")
        except LocalError as error:
            raise CommandError(f"{error}. Stop it, and run this again.") from error
        except Unreadable as error:
            raise CommandError(str(error)) from error
        self._tell(rotation)

    def _tell(self, rotation: Rotation) -> None:
        for name in rotation.files:
            self.stdout.write(f"{settings.STATE_FOLDER / name} is new.")
        for variable in rotation.variables:
            self.stdout.write(f"By hand: {variable}: {_BY_HAND[variable]}.")
        for name in rotation.servers:
            self.stdout.write(
                f"Server {name} has a new credential. By hand: replace its SSH key, here and on the server."
            )
        for name, token in rotation.join_tokens.items():
            self.stdout.write(f"Node {name} is refused until its agent joins with {token} within a day.")
        self.stdout.write(
            "By hand: the passwords of users and of Postgres and Redis, users' API tokens, passwords of registries, and"
            " the receivers of webhooks, if they were read too. Then start the platform."
        )
