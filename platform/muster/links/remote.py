"""Inspection and work on a server, by Python programs that go there as data."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import secrets
from dataclasses import dataclass, replace

import paramiko

from muster.fleet.package import Package
from muster.links.models import LinkState, Server
from muster.links.progress import Failed, plain
from muster.links.rules import folder_of, words_of
from muster.links.ssh import Connection

log = logging.getLogger(__name__)

START_TIMEOUT_S = 100.0
SPARE_BYTES = 1 << 20
_MARK = b"\nmuster-look/1\n"
# Makes the folder, tries whether it can be written to, forgets what uploads and older agents have left, and tells what
# there is. Its words: the folder, and the name of the agent's file.
_LOOK = r"""
import errno, hashlib, json, os, sys, time
folder, wanted = sys.argv[1:3]
found = {"error": "", "detail": "", "free": 0, "sha256": "", "tag": "", "log": ""}
try:
    state = os.path.join(folder, "state")
    os.makedirs(state, mode=0o711, exist_ok=True)
    disk = os.statvfs(folder)
    found["free"] = disk.f_bavail * disk.f_frsize
    probe = os.path.join(folder, ".probe.%d" % os.getpid())
    try:
        with open(probe, "wb") as file:
            file.write(b"x" * 4096)
    finally:
        if os.path.exists(probe):
            os.unlink(probe)
    agents = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("agent-") and name.endswith(".part") and os.path.getmtime(path) < time.time() - 3600:
            os.unlink(path)
        if name.startswith("agent-") and name.endswith(".pyz") and name != wanted:
            agents.append((os.path.getmtime(path), path))
    for _, path in sorted(agents)[:-3]:
        os.unlink(path)
except OSError as error:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    found["error"], found["detail"] = "no_space" if full else "not_writable", str(error)
try:
    with open(os.path.join(folder, wanted), "rb") as file:
        found["sha256"] = hashlib.sha256(file.read()).hexdigest()
except OSError:
    pass
try:
    with open(os.path.join(folder, "state", "daemon.json")) as file:
        record = json.load(file)
    with open("/proc/%d/stat" % record["pid"]) as file:
        fields = file.read().rpartition(")")[2].split()
    if fields[0] not in "ZX" and int(fields[19]) == record["started"]:
        found["tag"] = record["tag"]
except (OSError, ValueError, KeyError, TypeError):
    pass
try:
    with open(os.path.join(folder, "state", "agent.log"), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 1500))
        found["log"] = file.read().decode(errors="replace")
except OSError:
    pass
sys.stdout.write("\nmuster-look/1\n" + json.dumps(found) + "\n")
"""
_DIGEST = r"""
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    sys.stdout.write("\nmuster-look/1\n" + hashlib.sha256(file.read()).hexdigest() + "\n")
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Facts found on a server."""

    free_bytes: int
    agent_sha256: str
    running_tag: str
    log_end: str
    unusable: Failed | None = None
    """The reason why no agent could be installed there now; one that runs needs no more room than it has."""


class Place:
    """The agent's folder on a server."""

    def __init__(self, server: Server, package: Package) -> None:
        self._folder = folder_of(server.folder, server.user)
        self._package = package
        self._options = server.options
        self.tag = package.tag(server.options)

    @property
    def agent(self) -> str:
        """The agent's file."""
        return f"{self._folder}/{self._package.name}"

    @property
    def state(self) -> str:
        """The agent's state folder."""
        return f"{self._folder}/state"

    def look(self, connection: Connection) -> Found:
        """Inspect the server; raises `Failed` if nothing can be seen, as without Python."""
        ended = connection.run(["-I", "-c", _LOOK, self._folder, self._package.name])
        _, mark, answer = ended.output.partition(_MARK)
        if not mark:
            said = plain(ended.errors) or plain(ended.output[-500:].decode(errors="replace"))
            raise Failed(
                LinkState.NO_PYTHON,
                f"Python 3.9 or newer is needed as python3; it ended with status {ended.status}: {said[-1000:]}",
            )
        try:
            found = json.loads(answer)
            error, detail = str(found["error"]), str(found["detail"])
            seen = Found(int(found["free"]), str(found["sha256"]), str(found["tag"]), plain(str(found["log"])))
        except (ValueError, KeyError, TypeError, RecursionError) as wrong:
            raise Failed(LinkState.BROKEN, "what python3 on the server told makes no sense") from wrong
        if error:
            state = LinkState.NO_SPACE if error == "no_space" else LinkState.NOT_WRITABLE
            seen = replace(seen, unusable=Failed(state, f"the folder {self._folder} cannot be used: {detail}"))
        return seen

    def upload(self, connection: Connection, free_bytes: int) -> None:
        """Bring the agent's file: under another name first, compared, and then renamed; never half a file."""
        size = len(self._package.data)
        if free_bytes < size + SPARE_BYTES:
            raise Failed(
                LinkState.NO_SPACE,
                f"{free_bytes >> 10} KiB are free in {self._folder}, and {(size + SPARE_BYTES) >> 10} are needed",
            )
        draft = f"{self.agent}.{secrets.token_hex(8)}.part"
        with contextlib.closing(connection.sftp()) as files:
            try:
                with files.open(draft, "wx") as file:
                    file.set_pipelined(True)
                    file.write(self._package.data)
                if files.stat(draft).st_size != size:
                    raise OSError("the file did not arrive whole")  # pipelined writes do not tell why
                self._compare(connection, draft)
                files.posix_rename(draft, self.agent)
            except (OSError, EOFError, paramiko.SFTPError, paramiko.SSHException) as error:
                # The disk may be full: looked at before the draft makes room again.
                failure = self._why_not(connection, error)
                _remove(files, draft)
                raise failure from error
            except Failed:
                _remove(files, draft)
                raise

    def start(self, connection: Connection) -> None:
        """Start the agent as a daemon, in the place of an older one; its jobs do not notice."""
        words = [self.agent, "start", "--state", self.state, "--tag", self.tag, "--", *words_of(self._options)]
        ended = connection.run(words, timeout_s=START_TIMEOUT_S)
        if ended.status != 0:
            said = plain(ended.errors) or "it said nothing"
            raise Failed(LinkState.START_FAILED, f"the agent did not start (status {ended.status}): {said}")

    def attach_words(self) -> list[str]:
        """The command that joins a channel to the running agent."""
        return [self.agent, "attach", "--state", self.state]

    def _compare(self, connection: Connection, path: str) -> None:
        _, mark, answer = connection.run(["-I", "-c", _DIGEST, path]).output.partition(_MARK)
        if not mark or answer.strip().decode(errors="replace") != self._package.sha256:
            raise Failed(
                LinkState.UPLOAD_FAILED, "the SHA-256 of the uploaded file differs from that of the agent's package"
            )

    def _why_not(self, connection: Connection, error: Exception) -> Failed:
        try:
            unusable = self.look(connection).unusable
        except Failed as failure:
            log.info("look_failed reason=%s", failure.reason)
        else:
            if unusable is not None:
                return unusable
        denied = isinstance(error, OSError) and error.errno in {errno.EACCES, errno.ENOENT}
        state = LinkState.NOT_WRITABLE if denied else LinkState.UPLOAD_FAILED
        return Failed(state, f"the upload to {self._folder} failed: {str(error) or type(error).__name__}")


def _remove(files: paramiko.SFTPClient, path: str) -> None:
    try:
        files.remove(path)
    except (OSError, EOFError, paramiko.SFTPError, paramiko.SSHException) as error:
        # The next look removes it once it is old.
        log.info("draft_not_removed path=%s error=%s", path, error)
