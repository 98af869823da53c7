"""Options that `run` and `join` derive from their command line, and their messages when they cannot serve."""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import sys
from typing import List, Optional, Sequence

from nodeagent.cli import agent
from nodeagent.cli.daemon import program
from nodeagent.cli.join import join
from nodeagent.disk.watch import Options as DiskOptions
from nodeagent.gpu.port import GpuUnavailable
from nodeagent.protocol.messages import EXIT_REGISTER_AGAIN
from nodeagent.protocol.unixids import groups_problem
from nodeagent.runtime.choose import RuntimeOptions
from nodeagent.runtime.container.options import Options as ContainerOptions
from nodeagent.runtime.port import RuntimeUnavailable
from nodeagent.runtime.shim.folders import JobUser
from nodeagent.state.identity import StateBusy
from nodeagent.sync.session import Rejected

_MAX_TOKEN_CHARACTERS = 4096

_log = logging.getLogger("nodeagent")


def serve(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Run or register the agent and return the exit status; `words` are the serving options for a unit."""
    try:
        if options.command == "join":
            return join(_agent_options(options, _read_token(options.token_file)), words, options.systemd)
        token = _read_token(options.join_token_file) if options.join_token_file else ""
        status = agent.run(_agent_options(options, token))
    except Rejected as error:
        _log.error("%s", error)
        return error.status
    except (StateBusy, GpuUnavailable, RuntimeUnavailable, KeyError, ValueError) as error:
        _log.error("cannot start: %s", error)
        return 1
    if status == EXIT_REGISTER_AGAIN:
        _start_anew()
    return status


def _start_anew() -> None:
    """Become a new run of this program with the same options; return if that fails.

    The process is replaced, because the platform takes the first report of the next run for complete. A thread that had
    claimed an allocation would be unknown to that run.
    """
    words = words_without_token(sys.argv[1:])
    _log.info("starting anew, to register again")
    try:
        os.execv(sys.executable, [*program(), *words])  # noqa: S606 (it is this very program)
    except OSError as error:
        _log.error("cannot start anew: %s", error)


def words_without_token(words: Sequence[str]) -> List[str]:
    """The command line without `--join-token-file`: its token is used up, and standard input can be read once only."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--join-token-file")
    return parser.parse_known_args(list(words))[1]


def _agent_options(options: argparse.Namespace, join_token: str) -> agent.Options:
    return agent.Options(
        url=options.url,
        state=options.state,
        join_token=join_token,
        gpus=options.gpus,
        gpu_profiles=options.gpu_profiles or "",
        cpus=options.cpus,
        memory_mib=options.memory_mib,
        address=options.address,
        hostname=options.hostname,
        ca_file=options.ca_file,
        check_python=options.check_python,
        disks=DiskOptions(_bytes_of(options.disk_mib), _bytes_of(options.disk_reserve_mib)),
        runtime=runtime_options(options),
    )


def runtime_options(options: argparse.Namespace) -> RuntimeOptions:
    """The runtime's options from the command line."""
    return RuntimeOptions(
        name=options.runtime,
        docker_socket=options.docker_socket,
        containers=ContainerOptions(
            default_image=options.default_image,
            network=options.network,
            gang_network=options.gang_network,
            pids=options.pids_limit,
            read_only_root=options.read_only_root,
            infiniband=not options.no_infiniband,
            mount_roots=tuple(options.mount_root or ()),
        ),
        job_user=_job_user(options.job_user),
        log_spool_mib=options.log_spool_mib,
        hide=tuple(options.hide or ()),
    )


def _bytes_of(size_mib: Optional[int]) -> Optional[int]:
    return None if size_mib is None else size_mib << 20


def _read_token(path: str) -> str:
    """The join token in a file, or the first line of standard input where `path` is `-`; empty if there is no file."""
    if path == "-":
        token = sys.stdin.readline(_MAX_TOKEN_CHARACTERS).strip()
        if not token:
            raise ValueError("the join token's file is - and standard input has no token")
        return token
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_TOKEN_CHARACTERS).strip()
    except OSError as error:
        # The token is good once, so its file may be gone; if it is needed, the registration says so.
        # Without the path: a token that was given in its place stays out of the log.
        _log.info("the join token's file cannot be read: %s", error.strerror)
        return ""


def _job_user(name: Optional[str]) -> Optional[JobUser]:
    if name is None:
        return None
    if os.geteuid() != 0:
        raise ValueError("--job-user needs root")
    user = pwd.getpwnam(name)
    if user.pw_uid == 0:
        raise ValueError("--job-user: {} is root, and jobs never run as root".format(name))
    groups = [user.pw_gid, *(group for group in os.getgrouplist(name, user.pw_gid) if group != user.pw_gid)]
    problem = groups_problem(groups)
    if problem:
        raise ValueError("--job-user: {} is a member of a group that no job may have, {}".format(name, problem))
    return JobUser(user.pw_uid, tuple(groups))
