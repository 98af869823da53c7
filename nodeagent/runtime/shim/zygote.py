"""The zygote: a single-threaded process that forks shims on request, in about a millisecond each.

It is started with a stream socket as its standard input. A request is the path of an allocation's folder in one line;
the answer is one line, `ok PID` or `error REASON`. It ends when the agent does; its shims do not.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal

from nodeagent.runtime.shim import supervisor


def main(module: str) -> None:
    """Serve until the agent closes its end; `module` has the function `make` for the jobs of shims."""
    make_job: supervisor.MakeJob = importlib.import_module(module).make
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps; each shim sets its own handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    gc.freeze()  # pages of what is loaded now stay shared with all shims
    pending = b""
    while True:
        data = os.read(0, 65536)
        if not data:
            return
        *requests, pending = (pending + data).split(b"\n")
        for request in requests:
            os.write(0, _fork_shim(os.fsdecode(request), make_job))


def _fork_shim(folder: str, make_job: supervisor.MakeJob) -> bytes:
    try:
        pid = os.fork()
    except OSError as error:
        return "error {}\n".format(error.strerror).encode()
    if pid == 0:
        supervisor.run(folder, make_job)
    return "ok {}\n".format(pid).encode()
