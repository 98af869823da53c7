"""The command `muster-agent`."""

from __future__ import annotations

import argparse
import logging
import os
import time
from typing import List, Optional, Sequence

from nodeagent import __version__
from nodeagent.runtime import DOCKER_SOCKET, RUNTIMES

_STATE = "/var/lib/muster-agent"
_JOIN_FILE_HELP = "the file with the join token; - reads it from standard input"
_STATE_HELP = "the agent's folder: credential, journal, jobs, log spools"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)sZ %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    # Each command loads what it needs: a link is as quick as `attach`, and out of one file everything is compiled anew.
    if options.command == "attach":
        from nodeagent.cli.attach import attach  # noqa: PLC0415

        return attach(options.state)
    if options.command == "start":
        from nodeagent.cli.daemon import start  # noqa: PLC0415

        return start(options.state, options.tag, [word for word in options.options if word != "--"])
    from nodeagent.cli.serving import serve  # noqa: PLC0415

    return serve(options, _words_of_run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster-agent", description="The agent of a Muster node.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="serve this node until ended; jobs outlive the agent")
    way = run.add_mutually_exclusive_group(required=True)
    way.add_argument("--url", default="", help="the platform, such as https://muster.example.org")
    way.add_argument("--linked", action="store_true", help="the platform connects over SSH, with `attach`")
    run.add_argument("--state", required=True, help=_STATE_HELP)
    run.add_argument("--join-token-file", help=_JOIN_FILE_HELP + "; first time only")
    _add_serving_options(run)
    join = commands.add_parser("join", help="register this node, and make the unit by which systemd runs its agent")
    join.add_argument("url", metavar="URL", help="the platform, such as https://muster.example.org")
    join.add_argument("token_file", metavar="TOKEN_FILE", help=_JOIN_FILE_HELP)
    join.add_argument("--state", default=_STATE, help=_STATE_HELP + " (default: {})".format(_STATE))
    join.add_argument("--systemd", action="store_true", help="install the unit instead of printing it; as root")
    _add_serving_options(join)
    start = commands.add_parser(
        "start", help="for the platform: run --linked in the background, instead of an older one"
    )
    start.add_argument("--state", required=True)
    start.add_argument("--tag", default="", help="the platform's name for this program with its options")
    start.add_argument("options", nargs=argparse.REMAINDER, help="options of run, after --")
    attach = commands.add_parser("attach", help="for the platform: join this input and output to the agent that runs")
    attach.add_argument("--state", required=True)
    for command in (start, attach):
        command.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _add_serving_options(run: argparse.ArgumentParser) -> None:
    """Add the options that `run` and `join` share beyond the platform, the state folder and the token."""
    run.add_argument("--gpus", default="auto", help="auto, nvml, none, or emulated:MODEL:COUNT[,...][@LAYOUT]")
    run.add_argument(
        "--gpu-profiles", type=folder, metavar="FOLDER", help="the speeds of emulated GPUs (default: they have none)"
    )
    run.add_argument("--cpus", type=_positive, help="processors to offer (default: all)")
    run.add_argument("--memory-mib", type=_positive, help="memory to offer (default: all)")
    run.add_argument("--address", default="", help="the address by which other nodes reach this one")
    run.add_argument("--hostname", default="", help="the host name to report")
    run.add_argument("--ca-file", help="certificates of the authority that signed the platform's, for https")
    run.add_argument(
        "--check-python", default="auto", help="the Python whose PyTorch tests idle GPUs: a path, auto or none"
    )
    run.add_argument("--job-user", help="as root: run jobs as this user if their spec names none")
    run.add_argument(
        "--hide",
        action="append",
        type=folder,
        metavar="FOLDER",
        help="without root: a folder to hide from jobs, besides the agent's own; may be repeated",
    )
    run.add_argument("--log-spool-mib", type=_positive, default=64, help="disk for each job's log (default: 64)")
    run.add_argument("--disk-mib", type=_positive, help="disk that a job may fill before it is stopped (default: all)")
    run.add_argument(
        "--disk-reserve-mib", type=_not_negative, help="disk to keep free (default: a twentieth, 1024 at most)"
    )
    run.add_argument(
        "--runtime",
        choices=RUNTIMES,
        default="auto",
        help="run jobs in docker, in podman, as processes, or auto (default): jobs with an image in the engine "
        "that answers, the others as processes",
    )
    run.add_argument("--pids-limit", type=_positive, default=4096, help="most processes of a job (default: 4096)")
    containers = run.add_argument_group("for jobs in containers")
    containers.add_argument("--docker-socket", default=DOCKER_SOCKET, help="the socket of the Docker Engine")
    containers.add_argument("--default-image", default="", help="the image of jobs that name none (default: none)")
    containers.add_argument("--network", default="bridge", help="the network of jobs on one node (default: bridge)")
    containers.add_argument(
        "--gang-network",
        default="",
        help="the network of jobs on several nodes: host, refuse, or one that spans nodes (default: the pool's)",
    )
    containers.add_argument(
        "--no-infiniband", action="store_true", help="no InfiniBand devices for containers, whatever the pool says"
    )
    containers.add_argument(
        "--mount-root",
        action="append",
        type=_root,
        metavar="FOLDER",
        help="a folder that jobs may mount volumes from; may be repeated (default: none)",
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


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def folder(text: str) -> str:
    """The absolute path of a folder, which must exist: a job would see one that is made later."""
    if not os.path.isabs(text):
        raise argparse.ArgumentTypeError("{!r}: it must be an absolute path".format(text))
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError("{!r}: there is no such folder".format(text))
    return text


def _root(text: str) -> str:
    from nodeagent.protocol.messages import source_problem  # noqa: PLC0415 (`attach` needs none of the protocol)

    problem = source_problem(text)
    if problem:
        raise argparse.ArgumentTypeError("{!r}: {}".format(text, problem))
    return text
