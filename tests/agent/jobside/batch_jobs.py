"""Batch scripts run by muster-batch itself, on nodes that are addresses of loopback, without an agent."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent import jobside


@dataclass(frozen=True)
class Ran:
    """The remains of a job: statuses, log and files."""

    statuses: list[int]
    """The exit status of muster-batch by rank; -N for signal N."""
    log: str
    folder: Path

    def text(self, name: str = "out.txt") -> str:
        return (self.folder / name).read_text()

    def lines(self, name: str = "out.txt") -> list[str]:
        return self.text(name).splitlines()


class Nodes:
    """Emulated nodes n1, n2, … with 4 CPUs, 8 GiB and 2 GPUs each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        modules = folder / "modules"
        modules.mkdir()
        self.commands = os.path.join(jobside.unpack_commands(str(modules)), "bin")
        self.work = folder / "job"
        self.work.mkdir()
        self.processes: list[subprocess.Popen[str]] = []

    def start(
        self,
        script: str,
        *,
        nodes: int = 1,
        batch: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        shared: bool = True,
        **told: Any,
    ) -> None:
        path = self.work / "slurm_script"
        path.write_text(f"#!/bin/bash\n{script}")
        path.chmod(0o755)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        job = {
            "batch": {"output": "out.txt", **({"folder": str(self.work)} if shared else {}), **(batch or {})},
            "job_id": 4242, "array_id": None, "array_index": None, "array": None, "name": "train", "user": "ann",
            "nodes": [f"n{number}" for number in range(1, nodes + 1)],
            "addresses": [f"127.0.0.{number}" for number in range(1, nodes + 1)],
            "cpus": [4] * nodes, "memory_mib": [8192] * nodes, "gpus": [[0, 3]] * nodes,
            "restarts": 0, "time_limit_s": None, "cluster": "lab", "partition": "gpu", "account": "lab1",
            "qos": "normal", "secret": secrets.token_hex(32), "port": port, "submit_dir": str(self.work),
            "submit_host": "login", **told,
        }  # fmt: skip
        for rank in range(nodes):
            root = self.folder / f"node{rank}"
            for part in ("work", "tmp"):
                (root / part).mkdir(parents=True, exist_ok=True)
            own = {
                "PATH": os.environ["PATH"], "HOME": str(root / "home"), "TMPDIR": str(root / "tmp"), "LANG": "C.UTF-8",
                "MUSTER_BATCH": json.dumps({**job, "rank": rank}), "MUSTER_COMMANDS": self.commands,
                "MUSTER_PYTHON": sys.executable, "MUSTER_WORKDIR": str(root / "work"),
                "MUSTER_ALLOCATION_DIR": str(root), "MUSTER_JOB_TOKEN": "mj-1-secret", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "WORLD_SIZE": str(nodes), "RANK": str(rank),
                "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b" if job["gpus"][rank] else "", **(env or {}),
            }  # fmt: skip
            words = [os.path.join(self.commands, "muster-batch"), str(path), *arguments]
            log = (self.folder / f"log{rank}").open("w")
            self.processes.append(
                subprocess.Popen(words, env=own, cwd=root / "work", stdout=log, stderr=log, text=True)
            )
            log.close()

    def wait(self, timeout_s: float = 30) -> Ran:
        statuses = [process.wait(timeout_s) for process in self.processes]
        log = "".join((self.folder / f"log{rank}").read_text() for rank in range(len(self.processes)))
        return Ran(statuses, log, self.work)

    def run(self, script: str, **more: Any) -> Ran:
        self.start(script, **more)
        return self.wait()

    def close(self) -> None:
        """Kill what is left of the jobs, the scripts of supervisors among it."""
        for process in self.processes:
            if process.poll() is None:
                for pid in tree_of(process.pid):
                    os.kill(pid, signal.SIGKILL)
                process.wait()


def tree_of(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for pid in found:
        found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return found
