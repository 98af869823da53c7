"""`scancel -s SIGNAL` of the job in which it is called: its supervisor sends the signal, and no platform is asked."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent.jobside.slurm import wire
from nodeagent.jobside.slurm.environment import SOCKET

_WORD = re.compile(r"-s(.*)|--signal(?:=(.*))?")


def number_of(name: str) -> int | None:
    """The number of a signal, by its name with or without SIG, or as it is; None for a name of none."""
    if name.isdigit():
        return int(name)
    found = signal.Signals.__members__.get("SIG" + re.sub("^SIG", "", name.upper()))
    return None if found is None else int(found)


def request_of(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The request to the supervisor; None for a call that is not about this job alone, or that ends it."""
    rest, number, ids, script, steps = list(arguments), None, [], False, True
    while rest:
        word = rest.pop(0)
        asked = _WORD.fullmatch(word)
        if asked:
            number = number_of(asked[1] or asked[2] or (rest.pop(0) if rest else ""))
        elif word in ("-b", "--batch"):
            script, steps = True, False
        elif word in ("-f", "--full"):
            script = steps = True
        elif word.startswith("-") and word not in ("-Q", "--quiet", "-v", "--verbose"):
            return None
        elif not word.startswith("-"):
            ids.append(word)
    if number in (None, int(signal.SIGKILL)) or SOCKET not in environment or ids != [environment.get("SLURM_JOB_ID")]:
        return None
    return {"deliver": number, "script": script, "steps": steps}


def deliver(arguments: Sequence[str]) -> bool:
    """Send the signal if the call is about this job alone; False if the platform has to be asked."""
    request = request_of(arguments, os.environ)
    if request is None:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(os.environ[SOCKET])
            server.sendall(wire.line(request))
            return bool(wire.read_line(server) == {"delivered": True})
    except OSError:
        return False
