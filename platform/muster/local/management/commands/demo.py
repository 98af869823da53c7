"""`manage.py demo`: a whole cluster on this machine, with people in it and three jobs that run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muster.local import children
from muster.local.demo.cluster import (
    Place,
    engine_of,
    epochs,
    nodes_of,
    prepare_nodes,
    prepare_tenants,
    shared_single_user_nodes,
    wait_for_nodes,
)
from muster.local.demo.image import IMAGE, NoContainers, docker_socket, prepare_image
from muster.local.demo.jobs import CONTAINER_EXAMPLE, EXAMPLES, MIXED_EXAMPLES, explanations, run_examples, summary
from muster.local.demo.people import FILE_NAME, Access, prepare_people, require_python
from muster.local.places import LocalError, agents_folder
from muster.local.stack import Steps, running_stack
from muster.local.supervisor import Supervisor
from muster_client.errors import MusterError as ClientError


class Command(BaseCommand):
    help = "Starts the platform with emulated GPU nodes, runs three jobs, and keeps running until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once", action="store_true", help="stop after the jobs; exit 0 if all ended as they should"
        )
        parser.add_argument("--port", type=int, help="default: $PORT, else the first free one from 8000 on")
        parser.add_argument(
            "--heterogeneous",
            action="store_true",
            help="also a pool of two GPU types, on which jobs run at different speeds (docs/operator/emulated.md)",
        )
        parser.add_argument("--timeout", type=float, help="seconds that the jobs may take (180, or 400 on two types)")

    def handle(
        self,
        *args: object,
        once: bool,
        port: int | None,
        heterogeneous: bool,
        timeout: float | None,
        **options: object,
    ) -> None:
        console = Console()
        steps = Steps(console)
        as_expected = False
        try:
            with running_stack(settings.STATE_FOLDER, port=port, steps=steps) as (site, supervisor):
                nodes = nodes_of(heterogeneous=heterogeneous)
                start_nodes(site, supervisor, nodes)
                steps.done("nodes", "gpu01 and gpu02 are ready, with four emulated A100 each; screen01 has two")
                if heterogeneous:
                    steps.done("two types", "fast01 has two A100, slow01 two V100: the GPUs of the pool mixed")
                if shared := shared_single_user_nodes(nodes):
                    steps.done(
                        "isolation",
                        f"none between the tenants' jobs on {', '.join(shared)}: all run as your account. "
                        "The demo allows that; a real node takes jobs of one tenant then",
                    )
                path = site.home / FILE_NAME
                people, renewed = prepare_people(
                    path, url=site.public_url, tenants=prepare_tenants(heterogeneous=heterogeneous)
                )
                require_python(settings.UID_RANGE[0])
                steps.done("tenants", "vision (ada) and nlp (grace), 4 A100 each; otto is the operator")
                contained = (CONTAINER_EXAMPLE,) if prepare_containers(steps, nodes) else ()
                examples = (*EXAMPLES, *contained, *(MIXED_EXAMPLES if heterogeneous else ()))
                timeout_s = timeout or (400.0 if heterogeneous else 180.0)
                outcomes = run_examples(site.local_url, people, examples, console=console, timeout_s=timeout_s)
                console.print("", summary(outcomes))
                for sentence in explanations(outcomes):
                    console.print(f"[red]✗[/] {escape(sentence)}", highlight=False)
                as_expected = all(outcome.as_expected for outcome in outcomes)
                if not once:
                    tell_how_to_go_on(console, site.public_url, path, people, renewed)
                    supervisor.wait()
        except (LocalError, ClientError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            if once:
                raise CommandError("interrupted", returncode=130) from None
            return
        if not as_expected:
            sys.exit(1)


def start_nodes(site: children.Site, supervisor: Supervisor, nodes: Mapping[str, Place]) -> None:
    """Starts the agents of the nodes, and returns when the platform has them."""
    folder = agents_folder(site.home)
    options = prepare_nodes(folder, nodes, docker_socket=docker_socket())
    before = epochs(nodes)
    for one in options:
        supervisor.start(children.agent(site, one, folder=folder))
    wait_for_nodes(nodes, registered_before=before, timeout_s=60)


def prepare_containers(steps: Steps, nodes: Mapping[str, Place]) -> bool:
    """Whether a job can run in a container here; says so, or why not."""
    engine, why_none = engine_of(nodes)
    try:
        if not engine:
            raise NoContainers(why_none)
        prepare_image(engine)
    except NoContainers as error:
        steps.done("containers", f"none, so jobs run as processes: {escape(str(error))}")
        return False
    steps.done("containers", f"{engine} has the image {IMAGE}, made of this machine's own programs")
    return True


def tell_how_to_go_on(console: Console, url: str, path: Path, people: Mapping[str, Access], renewed: list[str]) -> None:
    """Prints where to go and how to sign in; passwords only when they are new."""
    console.print(f"\nMuster is at [bold link={url}]{url}[/]", highlight=False)
    if renewed:
        table = Table("user", "password", "is", box=None)
        for name in renewed:
            role = {"ada": "member of vision", "grace": "manager of nlp", "otto": "operator, also in /admin/"}[name]
            table.add_row(name, people[name].password, role)
        console.print(table)
        console.print(f"These are shown once; {path} keeps them, for you alone.", highlight=False, soft_wrap=True)
    else:
        console.print(f"Sign in as ada, grace or otto; the passwords are in {path}.", highlight=False, soft_wrap=True)
    console.print("Ctrl-C stops everything; the next run goes on where this one ended.", highlight=False)
