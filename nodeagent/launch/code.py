"""A job's code: fetched from the platform, checked against its name, and unpacked; or a reason why not."""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import BinaryIO, Callable

from nodeagent.launch.archive import unpack
from nodeagent.protocol.archives import UnsafeArchive
from nodeagent.protocol.messages import CodeRef, EndReason
from nodeagent.runtime.port import LaunchError
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable

TRY_FOR_S = 60.0


def install_code(
    client: Client, code: CodeRef, folder: str, wait: Callable[[float], bool], wanted: Callable[[], bool]
) -> None:
    """Put the code into `folder`, or raise `LaunchError`. The archive itself is never where the job could see it."""
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(folder)) as file:
            _fetch(client, code, file, wait, wanted)
            _check(code, file)
            file.seek(0)
            unpack(file, folder)
    except UnsafeArchive as error:
        raise _unavailable("the code: {}".format(error)) from error
    except OSError as error:
        raise _unavailable("the code cannot be kept: {}".format(error.strerror)) from error


def _fetch(
    client: Client, code: CodeRef, file: BinaryIO, wait: Callable[[float], bool], wanted: Callable[[], bool]
) -> None:
    backoff = Backoff()
    until = clock.boottime() + TRY_FOR_S
    while True:
        file.seek(0)
        file.truncate()
        try:
            client.fetch_code(code.sha256, file, code.size + 1)
            return
        except Unauthorized:
            raise
        except Refused as error:
            raise _unavailable("the code cannot be fetched: {}".format(error)) from error
        except Unreachable as error:
            if clock.boottime() >= until or not wanted():
                raise _unavailable("the code cannot be fetched: {}".format(error)) from error
        wait(backoff.wait_s())


def _check(code: CodeRef, file: BinaryIO) -> None:
    size = file.tell()
    if size != code.size:
        raise _unavailable("the code has {} bytes or more, not {}".format(size, code.size))
    digest = hashlib.sha256()
    file.seek(0)
    for data in iter(lambda: file.read(1 << 20), b""):
        digest.update(data)
    if digest.hexdigest() != code.sha256:
        raise _unavailable("the code has another SHA-256 than {}".format(code.sha256))


def _unavailable(detail: str) -> LaunchError:
    return LaunchError(EndReason.CODE_UNAVAILABLE, detail)
