"""The command `muster-agent`."""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import sys
import time
from typing import List, Optional, Sequence

from nodeagent import __version__, agent
from nodeagent.attach import attach
from nodeagent.daemon import start
from nodeagent.gpu.port import GpuUnavailable
from nodeagent.identity import StateBusy
from nodeagent.join import join
from nodeagent.protocol import source_problem
from nodeagent.runtime.choose import DOCKER_SOCKET, RUNTIMES, RuntimeOptions
from nodeagent.runtime.container.plan import Options as ContainerOptions
from nodeagent.runtime.port import RuntimeUnavailable
from nodeagent.runtime.shim.folders import JobUser
from nodeagent.session import Rejected

_log = logging.getLogger("nodeagent")

_STATE = "/var/lib/muster-agent"
_STATE_HELP = "the agent's folder: credential, journal, jobs, log spools"
_MOST_TOKEN_LETTERS = 4096


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)sZ %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    if options.command == "attach":
        return attach(options.state)
    try:
        if options.command == "start":
            return start(options.state, options.tag, [word for word in options.options if word != "--"])
        if options.command == "join":
            return join(_agent_options(options, _given_token(options.token)), _words_of_run(options), options.systemd)
        return agent.run(_agent_options(options, _join_token(options.join_token_file)))
    except Rejected as error:
        _log.error("%s", error)
        return error.status
    except (StateBusy, GpuUnavailable, RuntimeUnavailable, KeyError, ValueError) as error:
        _log.error("cannot start: %s", error)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster-agent", description="The agent of a Muster node.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="serve this node until ended; jobs outlive the agent")
    way = run.add_mutually_exclusive_group(required=True)
    way.add_argument("--url", default="", help="the platform, such as https://muster.example.org")
    way.add_argument("--linked", action="store_true", help="dial nobody: the platform comes over SSH, with `attach`")
    run.add_argument("--state", required=True, help=_STATE_HELP)
    run.add_argument("--join-token-file", help="where the join token is; else MUSTER_JOIN_TOKEN; first time only")
    _add_serving_options(run)
    join = commands.add_parser("join", help="register this node, and make the unit by which systemd runs its agent")
    join.add_argument("url", metavar="URL", help="the platform, such as https://muster.example.org")
    join.add_argument(
        "token", metavar="TOKEN", help="the join token; - reads it from standard input, out of the sight of others"
    )
    join.add_argument("--state", default=_STATE, help=_STATE_HELP + " (default: {})".format(_STATE))
    join.add_argument("--systemd", action="store_true", help="install the unit instead of printing it; as root")
    _add_serving_options(join)
    start = commands.add_parser(
        "start", help="for the platform: run --linked in the background, instead of an older one"
    )
    start.add_argument("--state", required=True)
    start.add_argument("--tag", default="", help="what the platform knows this program with its options by")
    start.add_argument("options", nargs=argparse.REMAINDER, help="of run, after --")
    attach = commands.add_parser("attach", help="for the platform: join this input and output to the agent that runs")
    attach.add_argument("--state", required=True)
    for command in (start, attach):
        command.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _add_serving_options(run: argparse.ArgumentParser) -> None:
    """What `run` takes beside the platform, its folder and its token; `join` takes it for the unit."""
    run.add_argument("--gpus", default="auto", help="auto, nvml, none, or emulated:MODEL:COUNT[,...][@LAYOUT]")
    run.add_argument("--cpus", type=_positive, help="processors to offer (default: all)")
    run.add_argument("--memory-mib", type=_positive, help="memory to offer (default: all)")
    run.add_argument("--address", default="", help="the address by which other nodes reach this one")
    run.add_argument("--hostname", default="", help="the host name to report")
    run.add_argument("--ca-file", help="certificates that sign the platform's, for https")
    run.add_argument(
        "--check-python", default="auto", help="the Python whose PyTorch gives idle GPUs work: a path, auto or none"
    )
    run.add_argument("--job-user", help="as root: run jobs as this user if their spec names none")
    run.add_argument("--log-spool-mib", type=_positive, default=64, help="disk for each job's log (default: 64)")
    run.add_argument(
        "--runtime", choices=RUNTIMES, default="process", help="how jobs run: process (default), docker or podman"
    )
    containers = run.add_argument_group("with --runtime docker or podman")
    containers.add_argument("--docker-socket", default=DOCKER_SOCKET, help="where the Docker Engine listens")
    containers.add_argument("--default-image", default="", help="the image of jobs that name none (default: refuse)")
    containers.add_argument("--network", default="bridge", help="the network of jobs on one node (default: bridge)")
    containers.add_argument(
        "--gang-network", default="host", help="of jobs on several: host (default), a network that spans nodes, refuse"
    )
    containers.add_argument("--pids-limit", type=_positive, default=4096, help="processes of a job (default: 4096)")
    containers.add_argument(
        "--no-infiniband", action="store_true", help="no InfiniBand devices for containers, whatever the pool says"
    )
    containers.add_argument(
        "--mount-root",
        action="append",
        type=_root,
        metavar="FOLDER",
        help="where volumes of jobs may lie; may be given again (default: nothing is mounted)",
    )
    containers.add_argument("--read-only-root", action="store_true", help="jobs write to their own folders only")
    run.add_argument("--verbose", action="store_true", help="log more")


def _words_of_run(options: argparse.Namespace) -> List[str]:
    """The serving options as they were given, for the command line of `run`."""
    serving = argparse.ArgumentParser(add_help=False)
    _add_serving_options(serving)
    words = []
    for name, default in sorted(vars(serving.parse_args([])).items()):
        value = getattr(options, name)
        if value != default:
            option = "--" + name.replace("_", "-")
            values = value if isinstance(value, list) else [value]
            words += [option if one is True else "{}={}".format(option, one) for one in values]
    return words


def _agent_options(options: argparse.Namespace, join_token: str) -> agent.Options:
    return agent.Options(
        url=options.url,
        state=options.state,
        join_token=join_token,
        gpus=options.gpus,
        cpus=options.cpus,
        memory_mib=options.memory_mib,
        address=options.address,
        hostname=options.hostname,
        ca_file=options.ca_file,
        check_python=options.check_python,
        runtime=_runtime_options(options),
    )


def _runtime_options(options: argparse.Namespace) -> RuntimeOptions:
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
    )


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def _root(text: str) -> str:
    problem = source_problem(text)
    if problem:
        raise argparse.ArgumentTypeError("{!r}: {}".format(text, problem))
    return text


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


def _given_token(word: str) -> str:
    if word != "-":
        _log.warning("others on this machine could read the token meanwhile: - takes it from standard input")
        return word
    token = sys.stdin.readline(_MOST_TOKEN_LETTERS).strip()
    if not token:
        raise ValueError("TOKEN is - and standard input has none")
    return token


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
