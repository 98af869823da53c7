"""Celery: bringing agents to servers."""

from __future__ import annotations

from celery import shared_task

from muster.common.periodic import only_if
from muster.links.models import Step
from muster.links.progress import due
from muster.links.services import ask_for_install

MAX_INSTALLS_AT_ONCE = 32

only_if("links.sweep", f"EXISTS (SELECT FROM links_server WHERE step = '{Step.INSTALL}')")


@shared_task(name="links.install")
def install(server_id: int) -> None:
    """Bring the agent to a server, if that is what comes next."""
    # Here, for nothing else that a worker does needs SSH.
    from muster.links.install import install_agent  # noqa: PLC0415

    install_agent(server_id)


@shared_task(name="links.sweep")
def sweep() -> None:
    """Ask for what is due, for whatever was asked in vain."""
    for server_id in due(Step.INSTALL).values_list("pk", flat=True)[:MAX_INSTALLS_AT_ONCE]:
        ask_for_install(server_id)
