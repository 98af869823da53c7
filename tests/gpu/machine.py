"""An agent from its zipapp on this machine, with a platform in this process, and what `nvidia-smi` says beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nodeagent.protocol.messages import GpuSample, HealthEvent, Inventory, SyncRequest
from tests.agent.fake_platform import Allocation, FakePlatform

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"


class Missed(Exception):
    """A check that did not hold; the message says what was seen instead."""


class Machine:
    """The agent and the programs of its jobs, in a folder that goes away with `close`."""

    def __init__(self, gpus: str, python: str, *, train_s: float = 20) -> None:
        self.python, self.train_s = python, train_s
        self.folder = Path(tempfile.mkdtemp(prefix="muster-gpu-"))
        self.folder.chmod(0o755)  # jobs of another user read their programs here
        shutil.copytree(PROGRAMS, self.folder / "programs")
        shutil.copy(ROOT / "examples" / "torch-ddp" / "train.py", self.folder / "programs" / "ddp.py")
        self.platform = FakePlatform()
        agent = self.folder / "muster-agent.pyz"
        subprocess.run([sys.executable, "-m", "nodeagent.cli.build", str(agent)], cwd=ROOT, check=True)
        token = self.folder / "join-token"
        token.write_text(self.platform.join_token)
        self.log = self.folder / "agent.log"
        command = [sys.executable, str(agent), "run", "--url", self.platform.url, "--state", str(self.folder / "state")]
        command += ["--join-token-file", str(token), "--gpus", gpus, "--runtime", "process"]
        with self.log.open("wb") as log:
            self._agent = subprocess.Popen(command, cwd="/", stdout=log, stderr=log)
        self.wait(lambda: self.platform.registered, "the agent has registered", 30)

    def close(self) -> None:
        """Stop the agent and remove the folder."""
        self._agent.terminate()
        self._agent.wait(30)
        self.platform.outage()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def inventory(self) -> Inventory:
        """The inventory that the agent registered."""
        assert self.platform.registered is not None
        return self.platform.registered.inventory

    def run(self, program: str, *words: object, with_torchrun: bool = False, **fields: Any) -> Allocation:
        """Start a program on the first GPU."""
        run = [self.python, *(["-m", "torch.distributed.run", "--standalone"] if with_torchrun else [])]
        command = " ".join(map(str, [*run, self.folder / "programs" / program, *words]))
        uuids = (self.inventory.gpus[0].uuid,)
        number = self.platform.place(command, gpu_uuids=uuids, check_gpus=False, cpus=2, **fields)
        return self.platform.allocations[number]

    def ended(self, allocation: Allocation, within_s: float = 90.0) -> Allocation:
        """The same allocation once its end and its log have come."""
        self.wait(lambda: allocation.end and allocation.finish, "the job has ended", within_s)
        return allocation

    def readings(self, count: int = 1) -> list[GpuSample]:
        """The next readings of the first GPU."""
        known = len(self.platform.syncs)
        uuid = self.inventory.gpus[0].uuid

        def found() -> list[GpuSample]:
            return [gpu for sync in self._syncs(known) for gpu in sync.gpus if gpu.uuid == uuid]

        return self.wait(lambda: found() if len(found()) >= count else [], "the agent reports readings", 60)

    def health(self) -> list[HealthEvent]:
        """All health events that the agent has sent."""
        return [event for sync in self._syncs(0) for event in sync.health]

    def wait(self, look: Callable[[], T], what: str, within_s: float) -> T:
        """The first true value of `look`; `Missed` where none comes in time."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            value = look()
            if value:
                return value
            if self._agent.poll() is not None:
                raise Missed(f"the agent ended with {self._agent.returncode}: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)
        raise Missed(f"not within {within_s:g} s: {what}")

    def _syncs(self, first: int) -> list[SyncRequest]:
        with self.platform.lock:
            return self.platform.syncs[first:]


def nvidia_smi(*fields: str) -> list[list[str]]:
    """A row for each GPU with these fields of `nvidia-smi --query-gpu`, without units."""
    command = ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in answer.splitlines() if line.strip()]


def has_nvidia_smi() -> bool:
    """True if this machine's `nvidia-smi` is there and answers."""
    return shutil.which("nvidia-smi") is not None and not subprocess.call(
        ["nvidia-smi", "-L"], stdout=subprocess.DEVNULL
    )
