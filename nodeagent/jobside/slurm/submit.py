"""sbatch in a job: the script and the words go to the platform, which submits them as the job's owner."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

from nodeagent.jobside.slurm.calls import Failed, call
from nodeagent.jobside.slurm.scripts import Words, exit_code_of, split
from nodeagent.jobside.slurm.words import sendable, show, tell_failure

_PATIENCE_S = 60.0
_LOOK_EVERY_S, _MAX_LOOK_EVERY_S = 1.0, 10.0
_WITHOUT_SCRIPT = frozenset({"--help", "--usage", "--version", "-V", "-h"})


def main(words: Sequence[str]) -> int:
    """Submit what the words after the first say, and return the exit code: with `--wait` that of the job."""
    typed = split(words[1:])
    try:
        script, name = _script(typed)
        folder = os.getcwd()
    except OSError as error:
        return show("", "sbatch: error: Unable to open file {}\n".format(typed.script or error.strerror), 1)
    except UnicodeDecodeError:
        return show("", "sbatch: error: The script is not text in UTF-8\n", 1)
    body = {
        "arguments": list(typed.options),
        "script": script,
        "script_name": name,
        "script_arguments": list(typed.arguments),
        "environment": _environment(),
        "folder": folder,
        "host": socket.gethostname(),
        "zone": time.strftime("%z"),
    }
    try:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = call("POST", "/slurm/sbatch", body, headers=headers, patience_s=_PATIENCE_S)
        code = show(str(answer["stdout"]), str(answer["stderr"]), int(answer["exit_code"]))
        if code or not (typed.has("wait", "W") or answer.get("wait")):  # the script may say so too
            return code
        return _wait_for(answer)
    except Failed as error:
        return tell_failure("sbatch", error)


def _script(typed: Words) -> tuple[str, str]:
    """Return the text of the script and the name that its job has by default; like Slurm, PATH is searched too."""
    if typed.wraps or _WITHOUT_SCRIPT.intersection(typed.options):
        return "", "wrap"
    if typed.script is None:
        return sys.stdin.buffer.read().decode(), "sbatch"
    path = typed.script
    if "/" not in path and not os.path.exists(path):
        path = shutil.which(path) or path
    with open(path, "rb") as file:
        return file.read().decode(), os.path.basename(path)


def _environment() -> dict[str, str]:
    """Return the environment without what belongs to this job alone: its own token and programs among it."""
    commands = os.environ.get("MUSTER_COMMANDS", "")
    modules = os.path.dirname(os.path.dirname(commands))
    found = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    for name, own in (("PATH", commands), ("PYTHONPATH", modules)):
        if own and name in found:
            found[name] = ":".join(part for part in found[name].split(":") if part != own)
            if not found[name]:
                del found[name]
    return sendable(found)


def _wait_for(answer: dict[str, Any]) -> int:
    """Return the exit code of the submitted job, or the highest of the array's, once it is over."""
    path = "/arrays/{array}" if answer.get("array") is not None else "/jobs/{job}"
    path = path.format(**answer)
    every_s = _LOOK_EVERY_S
    while True:
        found = call("GET", path, patience_s=_PATIENCE_S)
        if found["ended_at"] is not None:
            break
        time.sleep(every_s)
        every_s = min(_MAX_LOOK_EVERY_S, every_s * 1.5)
    if not path.startswith("/arrays/"):
        return _exit_code(found, found["reason"])
    codes, cursor = [0], ""
    while cursor is not None:
        page = call("GET", path + "/members?limit=200" + ("&cursor=" + cursor if cursor else ""))
        codes += [_exit_code(one, one["why"]) for one in page["results"]]
        cursor = page["next"]
    return max(codes)


def _exit_code(job: dict[str, Any], reason: str) -> int:
    return exit_code_of(job["state"], job["exit_code"], reason, job["started_at"])
