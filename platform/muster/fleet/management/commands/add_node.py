"""`manage.py add_node`: a node for an installed agent, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from muster.common.errors import MusterError
from muster.fleet.models import Node, Pool
from muster.fleet.package import install_commands, unreachable_url_hint
from muster.fleet.services import create_node, create_pool, renew_join_token
from scheduler.presets import FIRST


class Command(BaseCommand):
    help = "Adds a node and prints its join token, which works once, for a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the node's name")
        parser.add_argument("--pool", required=True)
        parser.add_argument(
            "--new-pool",
            action="store_true",
            help=f"make the pool if there is none of this name, with the preset {FIRST.title}",
        )
        parser.add_argument("--address", default="", help="where other nodes reach it; found out by default")
        parser.add_argument("--rack", default="")
        parser.add_argument("--again", action="store_true", help="a fresh join token for a node that is there")

    def handle(self, *args: object, **options: str) -> None:
        try:
            with transaction.atomic():
                self.stdout.write(_token(options))
        except MusterError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"The join token of {options['name']} works once, within a day. As root on the server:")
        self.stderr.write("\n".join(filter(None, (install_commands(), unreachable_url_hint()))))


def _token(options: dict[str, str]) -> str:
    actor, name, pool_name = "manage.py", options["name"], options["pool"]
    pool = Pool.objects.filter(name=pool_name).first()
    if pool is None and not options["new_pool"]:
        raise CommandError(f"there is no pool {pool_name}; --new-pool makes it")
    node = Node.objects.filter(name=name).first()
    if options["again"]:
        if node is None or pool is None or node.pool_id != pool.pk:
            raise CommandError(f"there is no node {name} in pool {pool_name}")
        return renew_join_token(node=node, actor=actor)
    if node is not None:
        raise CommandError(f"node {name} is there already; --again gives it a fresh join token")
    pool = pool or create_pool(name=pool_name, actor=actor, **FIRST.settings)
    _, secret = create_node(pool=pool, name=name, actor=actor, address=options["address"], rack=options["rack"])
    return secret
