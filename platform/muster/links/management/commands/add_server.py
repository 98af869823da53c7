"""`manage.py add_server`: a node that is reached over SSH, from the command line."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from muster.common.errors import MusterError
from muster.fleet.models import Pool
from muster.links.services import Access, add_server


class Command(BaseCommand):
    """Adds a server."""

    help = "Adds a GPU server that is reached over SSH; the agent is brought there and started."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options for the server's address and access."""
        parser.add_argument("name", help="the node's name")
        parser.add_argument("--pool", required=True)
        parser.add_argument("--host", required=True)
        parser.add_argument("--port", type=int, default=22)
        parser.add_argument("--user", required=True)
        parser.add_argument("--key-file", required=True, help="the private key, without a passphrase; - for stdin")
        parser.add_argument("--host-key", default="", help="what the server must show: SHA256:… or its public key")
        parser.add_argument("--address", default="", help="where other nodes reach it")
        parser.add_argument("--folder", default="", help="the agent's folder on the server")
        parser.add_argument("--options", default="", help="of muster-agent run, such as '--runtime=docker'")

    def handle(self, *args: object, **options: str) -> None:
        """Stores the server."""
        pool = Pool.objects.filter(name=options["pool"]).first()
        if pool is None:
            raise CommandError(f"there is no pool {options['pool']}")
        try:
            key = sys.stdin.read() if options["key_file"] == "-" else Path(options["key_file"]).read_text()
            add_server(
                pool=pool,
                name=options["name"],
                address=options["address"],
                access=Access(
                    host=options["host"],
                    port=int(options["port"]),
                    user=options["user"],
                    private_key=key,
                    host_key=options["host_key"],
                    folder=options["folder"],
                    options=options["options"],
                ),
                actor="manage.py",
            )
        except (OSError, MusterError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['name']} is added; its page in the admin tells how it gets on.")
