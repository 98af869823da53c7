"""squeue, scancel, sinfo, sacct and scontrol: the platform answers, and what it answers is printed.

Lists of hosts are expanded and folded here, as scripts do that in loops.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from nodeagent.jobside.slurm.calls import Failed, call
from nodeagent.jobside.slurm.hostlists import expand, fold
from nodeagent.jobside.slurm.signals import deliver

PREFIXES = ("SLURM_", "SLURMD_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_")
"""The beginnings of the variables by which these commands take defaults."""
_NO_CONTACT = "Unable to contact slurm controller (connect failure)"
_UNREACHED = {
    "squeue": "slurm_load_jobs error: ",
    "scontrol": "slurm_load_jobs error: ",
    "sinfo": "slurm_load_partitions: ",
    "sbatch": "sbatch: error: Batch job submission failed: ",
}


def main(words: Sequence[str]) -> int:
    """Run the command of the first word with the others, and return its exit code."""
    command, arguments = words[0], words[1:]
    local = _hostlist(arguments) if command == "scontrol" else None
    if local is not None:
        return local
    if command == "scancel" and deliver(arguments):
        return 0
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(PREFIXES) or name in ("TZ", "COLUMNS")
    }
    body = {
        "arguments": list(arguments),
        "environment": sendable({"TZ": time.strftime("%z"), **environment}),
        "input": sys.stdin.read() if _reads_input(command, arguments) else "",
        "folder": os.getcwd(),
    }
    try:
        answer = call("POST", "/slurm/" + command, body)
    except Failed as error:
        return tell_failure(command, error)
    return show(str(answer["stdout"]), str(answer["stderr"]), int(answer["exit_code"]))


def show(stdout: str, stderr: str, exit_code: int) -> int:
    """Print an answer, and return its exit code; a reader such as `head` may go early."""
    try:
        sys.stdout.buffer.write(stdout.encode(errors="surrogateescape"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains when it ends
    sys.stderr.buffer.write(stderr.encode(errors="surrogateescape"))
    sys.stderr.buffer.flush()
    return exit_code


def tell_failure(command: str, error: Failed) -> int:
    """Print why there is no answer, and return the exit code."""
    if error.reached:
        return show("", "{}: error: {}\n".format(command, error), 1)
    told = _UNREACHED.get(command, command + ": error: ") + _NO_CONTACT
    return show("", "{}\n{}: error: {}\n".format(told, command, error), 1)


def sendable(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables whose values are text; JSON has no others."""
    return {name: value for name, value in environment.items() if not _is_broken(name + value)}


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _reads_input(command: str, arguments: Sequence[str]) -> bool:
    """Return whether the command reads its standard input, which may be that of the loop that calls the command."""
    if command == "scontrol":
        return all(word.startswith("-") for word in arguments)
    return command == "scancel" and any(word in ("-i", "--interactive") for word in arguments)


def _hostlist(arguments: Sequence[str]) -> int | None:
    """Print a list of hosts for `scontrol show hostnames` and its like, and return the exit code; None for others."""
    words = [word for word in arguments if not word.startswith("-")]
    if len(words) < 2 or len(words[0]) < 3 or not "show".startswith(words[0].lower()):
        return None
    entity = words[1].lower()
    if len(entity) < 5:
        return None
    if "hostnames".startswith(entity):
        return _hostnames(words[2:])
    is_sorted = entity != "hostlist" and "hostlistsorted".startswith(entity) and len(entity) > len("hostlist")
    if not is_sorted and not "hostlist".startswith(entity):
        return None
    if len(words) != 3:
        return show("", "invalid encode argument\n" if len(words) < 3 else "too many arguments for keyword:show\n", 1)
    try:
        names = _names_in(words[2])
    except (ValueError, OSError):
        return show("", "Invalid hostlist: {}\n".format(words[2]), 0)
    return show(fold(_by_number(names) if is_sorted else names) + "\n", "", 0)


def _hostnames(lists: Sequence[str]) -> int:
    if len(lists) > 1:
        return show("", "too many arguments for keyword:show\n", 1)
    default = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST")
    text = lists[0] if lists else default
    if text is None:
        return show("", "scontrol: error: host list is empty\n", 0)
    try:
        return show("".join(name + "\n" for name in expand(text)), "", 0)
    except ValueError:
        return show("", "Invalid hostlist: {}\n".format(text), 0)


def _names_in(text: str) -> list[str]:
    """Return the names of a list, or of the file that an absolute path names."""
    if text.startswith("/"):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    return expand(text)


def _by_number(names: list[str]) -> list[str]:
    """Return the names in the order of their prefixes and last numbers."""

    def key(name: str) -> tuple[str, int, int]:
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        return prefix, int(digits or 0), len(digits)

    return sorted(names, key=key)
