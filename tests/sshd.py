"""A GPU server for tests: a real sshd on loopback, in a mount namespace in which it looks like another machine.

Its root has a home of its own (a file system that can be made small), its boot has a name that a test can change, and
what signing in finds as `python3` can be replaced. Where that cannot be, tests are skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from muster.links.keys import public_line
from muster.local import processes
from tests.needed import skip_without

_SSHD = "/usr/sbin/sshd"
_SFTP = "/usr/lib/openssh/sftp-server"
_HINT = "`make engines` installs it where there are apt and root"
_START_S = 20.0
# Bind mounts over what tells machines apart, and then sshd itself.
_INSIDE = """
set -e
mount --make-rprivate /
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o "$2" tmpfs "$1/home"
chmod 711 "$1/home"
mount --bind "$1/home" "$4"
exec "$3" -D -e -f "$1/sshd_config"
"""


def make_key(path: Path) -> str:
    """A new key pair in `path` and `path.pub`; returns the private key."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.touch(mode=0o600)
    path.write_bytes(private)
    path.with_suffix(".pub").write_bytes(public + b"\n")
    return private.decode()


class SshServer:
    """The server; `stop` and `start` are the end and the return of its sshd, `reboot` ends everything on it."""

    def __init__(self, folder: Path, *, home_options: str = "size=256m") -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = folder / "programs"
        self.programs.mkdir()
        self._home_options = home_options
        (self.programs / "python3").symlink_to(_plain_python())
        self.private_key = make_key(folder / "client")
        self.new_host_key()
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.port = int(door.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._configure()

    @property
    def agent_folder(self) -> str:
        """The agent's folder: a path that is another machine's."""
        return f"{self.home}/agent"

    @property
    def host_key(self) -> str:
        """The server's host key."""
        return (self.folder / "host.pub").read_text().strip()

    def new_host_key(self) -> None:
        """Another key, from the next start of sshd on."""
        for name in ("host", "host.pub"):
            (self.folder / name).unlink(missing_ok=True)
        make_key(self.folder / "host")

    def add_host_key(self, key: paramiko.PKey) -> str:
        """Let the server have one more host key, and return the public one."""
        path = self.folder / "second"
        key.write_private_key_file(str(path))
        config = self.folder / "sshd_config"
        config.write_text(config.read_text() + f"HostKey {path}\n")
        self.stop()
        self.start()
        return public_line(key)

    def start(self) -> None:
        """Start sshd, and return when it listens."""
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--mount", "sh", "-c", _INSIDE, "inside"),
                    *(str(self.folder), self._home_options, _SSHD, pwd.getpwuid(0).pw_dir),
                ]
                if self._process is None
                else [*self._enter(), _SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                skip_without("sshd", f"sshd cannot be used here: {self.said().strip().rpartition(chr(10))[2]}")
            time.sleep(0.02)
        if not hasattr(self, "_keeper"):
            # Keeps the namespace while no sshd runs.
            command = [*self._enter(), "sleep", "100000"]
            self._keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def stop(self) -> None:
        """End sshd and every connection; what was started through it goes on."""
        assert self._process is not None
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def cut(self) -> None:
        """End every connection; new ones are taken."""
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def connections(self) -> list[int]:
        """The processes of sshd that serve one connection each."""
        assert self._process is not None
        return [pid for pid in processes.descendants(self._process.pid) if _name(pid) == "sshd"]

    def agents(self) -> list[int]:
        """The agents that run on this server."""
        return [pid for pid in self._of_this_server() if b"--linked" in _words(pid)]

    def attached(self) -> list[int]:
        """The ends of links on this server."""
        return [pid for pid in self._of_this_server() if b"attach" in _words(pid)]

    def reboot(self) -> None:
        """End everything that was started on this server, and give its next boot another name."""
        self.stop()
        self._end_everything()
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self.start()

    def close(self) -> None:
        """End everything and leave nothing."""
        if self._process is not None:
            self.stop()
        self._end_everything()
        if hasattr(self, "_keeper"):
            self._keeper.kill()
            self._keeper.wait()

    def said(self) -> str:
        """The log of sshd."""
        path = self.folder / "sshd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def files(self) -> list[str]:
        """The names in the agent's folder, as the server sees them."""
        command = [*self._enter(), "find", self.agent_folder, "-maxdepth", "1", "-type", "f", "-printf", "%f\n"]
        return sorted(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split())

    def shell(self, script: str) -> str:
        """Run a command on the server by other means than SSH; return its output."""
        return subprocess.run([*self._enter(), "sh", "-c", script], capture_output=True, text=True, check=True).stdout

    def only_programs(self) -> None:
        """Hide the system's programs from who signs in, except for the shell."""
        config = self.folder / "sshd_config"
        config.write_text(config.read_text().replace(":/usr/bin:/bin", ""))
        self.stop()
        self.start()

    def chatter(self, command: str) -> None:
        """Let a command talk before whatever is run."""
        config = self.folder / "sshd_config"
        script = self.folder / "forced"
        script.write_text(
            f'case "$SSH_ORIGINAL_COMMAND" in *sftp*) ;; *) {command} ;; esac\neval "$SSH_ORIGINAL_COMMAND"\n'
        )
        config.write_text(config.read_text() + f"ForceCommand sh {script}\n")
        self.stop()
        self.start()

    def _enter(self) -> list[str]:
        inside = getattr(self, "_keeper", None) or self._process
        assert inside is not None
        return ["nsenter", "--mount", "--target", str(inside.pid)]

    def _configure(self) -> None:
        (self.folder / "authorized_keys").write_text((self.folder / "client.pub").read_text())
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\n"
            "ListenAddress 127.0.0.1\n"
            f"HostKey {self.folder}/host\n"
            f"PidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\n"
            "StrictModes no\n"
            "PermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\n"
            "UsePAM no\n"
            "PrintMotd no\n"
            f"SetEnv PATH={self.programs}:/usr/bin:/bin\n"
            f"Subsystem sftp {_SFTP}\n"
        )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as door:
            return door.recv(4) == b"SSH-"
        return False

    def _of_this_server(self) -> list[int]:
        """Every process that names this server's folder, but sshd and the keeper."""
        others = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
        return [pid for pid in others if str(self.folder).encode() in _environ(pid)]

    def _end_everything(self) -> None:
        until = time.monotonic() + _START_S
        while left := self._of_this_server():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < until, f"these processes do not end: {left}"
            time.sleep(0.02)


def require_sshd() -> None:
    """Skip, unless a server can be made here."""
    if os.geteuid() != 0:
        skip_without("sshd", "a server of its own for SSH needs root")
    if not (Path(_SSHD).exists() and Path(_SFTP).exists() and shutil.which("unshare") and shutil.which("nsenter")):
        skip_without("sshd", f"openssh-server is not installed; {_HINT}")
    if not _plain_python():
        skip_without("sshd", "the machine has no python3 of its own, which is what a server runs the agent with")
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        skip_without("sshd", f"no mount namespace can be made: {tried.stderr.decode().strip()}")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _plain_python() -> str:
    """The system's Python: root's home is another on the server, so nothing in it can be used."""
    return shutil.which("python3", path="/usr/bin:/bin") or ""


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _words(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _environ(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return b" ".join(_words(pid)) + Path(f"/proc/{pid}/environ").read_bytes()
    return b""
