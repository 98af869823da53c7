"""The command `muster-agent`."""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import sys
import time
from typing import Optional, Sequence

from nodeagent import __version__, agent
from nodeagent.gpu.port import GpuUnavailable
from nodeagent.identity import StateBusy
from nodeagent.runtime.process.runtime import JobUser
from nodeagent.session import Rejected

_log = logging.getLogger("nodeagent")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)sZ %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    try:
        return agent.run(
            agent.Options(
                url=options.url,
                state=options.state,
                join_token=_join_token(options.join_token_file),
                gpus=options.gpus,
                cpus=options.cpus,
                memory_mib=options.memory_mib,
                address=options.address,
                hostname=options.hostname,
                ca_file=options.ca_file,
                job_user=_job_user(options.job_user),
                log_spool_mib=options.log_spool_mib,
            )
        )
    except Rejected as error:
        _log.error("%s", error)
        return error.status
    except (StateBusy, GpuUnavailable, KeyError, ValueError) as error:
        _log.error("cannot start: %s", error)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster-agent", description="The agent of a Muster node.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="serve this node until ended; jobs outlive the agent")
    run.add_argument("--url", required=True, help="the platform, such as https://muster.example.org")
    run.add_argument("--state", required=True, help="the agent's folder: credential, journal, jobs, log spools")
    run.add_argument("--join-token-file", help="where the join token is; else MUSTER_JOIN_TOKEN; first time only")
    run.add_argument("--gpus", default="auto", help="auto, nvml, none, or emulated:MODEL:COUNT[,MODEL:COUNT...]")
    run.add_argument("--cpus", type=_positive, help="processors to offer (default: all)")
    run.add_argument("--memory-mib", type=_positive, help="memory to offer (default: all)")
    run.add_argument("--address", default="", help="the address by which other nodes reach this one")
    run.add_argument("--hostname", default="", help="the host name to report")
    run.add_argument("--ca-file", help="certificates that sign the platform's, for https")
    run.add_argument("--job-user", help="as root: run jobs as this user if their spec names none")
    run.add_argument("--log-spool-mib", type=_positive, default=64, help="disk for each job's log (default: 64)")
    run.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def _join_token(path: Optional[str]) -> str:
    if path is None:
        return os.environ.get("MUSTER_JOIN_TOKEN", "").strip()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        # It is of use once only, so its absence is no news; if it is needed, registering says so.
        _log.info("no join token: %s", error)
        return ""


def _job_user(name: Optional[str]) -> Optional[JobUser]:
    if name is None:
        return None
    if os.geteuid() != 0:
        raise ValueError("--job-user needs root")
    user = pwd.getpwnam(name)
    groups = [user.pw_gid, *(group for group in os.getgrouplist(name, user.pw_gid) if group != user.pw_gid)]
    return JobUser(user.pw_uid, tuple(groups))


if __name__ == "__main__":
    sys.exit(main())
