"""Bringing the agent to a server and starting it there."""

from __future__ import annotations

import logging

from muster.fleet.package import agent_package
from muster.links.models import LinkState
from muster.links.progress import Failed, failed, installed, take_install
from muster.links.remote import Place
from muster.links.ssh import connected

log = logging.getLogger(__name__)


def install_agent(server_id: int) -> bool:
    """Let the server's agent be this platform's, with the server's options, and run; returns whether it does.

    1. Take the server, so that no other worker installs it at the same time.
    2. Look; upload the agent's file unless it is there; start it unless exactly it runs.
    3. Store what came of it, unless the server was edited meanwhile.
    """
    server = take_install(server_id)
    if server is None:
        return False
    place = Place(server, agent_package())
    try:
        with connected(server) as connection:
            found = place.look(connection)
            if found.running_tag != place.tag:
                if found.unusable is not None:
                    raise found.unusable
                if found.agent_sha256 != agent_package().sha256:
                    place.upload(connection, found.free_bytes)
                place.start(connection)
    except Failed as failure:
        log.warning("install_failed node=%s state=%s reason=%s", server.node.name, failure.state, failure.reason)
        failed(server, failure)
        return False
    except Exception as error:
        log.exception("install_broke node=%s", server.node.name)
        failed(server, Failed(LinkState.BROKEN, f"the installation broke: {error!r}"))
        raise
    installed(server)
    return True
