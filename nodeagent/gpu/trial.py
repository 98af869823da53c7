"""Giving a GPU work whose result is known: by its driver if that can, else by a program in another Python."""

from __future__ import annotations

import json
import logging
import os
import pkgutil
import subprocess
import sys
import threading
import time
from typing import Any, Dict, Optional, Sequence, Tuple

from nodeagent.gpu.port import Outcome

_log = logging.getLogger("nodeagent.trial")

LIMIT_S = 60.0
"""Loading PyTorch and beginning to use a GPU takes most of it."""
_LOOK_AGAIN_S = 3600.0


class Stopper:
    """Ends a trial from another thread, at once."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._mutex = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None

    def stop(self) -> None:
        """End what runs, and what would be started."""
        with self._mutex:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    def watch(self, process: "subprocess.Popen[bytes]") -> None:
        """This process is what is to be ended."""
        with self._mutex:
            self._process = process
            if self._stopped.is_set():
                process.kill()

    def wait(self, seconds: float) -> bool:
        """Wait for a stop; whether there was one."""
        return self._stopped.wait(seconds)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop came."""
        return self._stopped.is_set()


class Program:
    """The work of `matmul`, done by another Python: `auto` looks for one, `none` is none, else it is a path."""

    def __init__(self, python: str, arguments: Sequence[str] = ()) -> None:
        self._named = python
        self._arguments = tuple(arguments)
        self._missing: Dict[str, Tuple[float, str]] = {}
        source = pkgutil.get_data("nodeagent.gpu", "matmul.py")
        self._source = (source or b"").decode()

    def run(self, uuid: str, stopper: Stopper) -> Optional[Outcome]:
        """How the GPU did its work, or None where no Python here has what it takes."""
        for python in self._candidates():
            answer = self._ask(python, uuid, stopper)
            if stopper.is_stopped:
                return None
            if "missing" not in answer:
                return _outcome(answer)
            why = str(answer["missing"])[:300]
            _log.info("no work for GPUs by %s: %s", python, why)
            self._missing[python] = (time.monotonic(), why)
        return None

    def _candidates(self) -> Sequence[str]:
        if self._named == "none":
            return ()
        named = (sys.executable, "/usr/bin/python3") if self._named == "auto" else (self._named,)
        now = time.monotonic()
        return [
            python
            for python in dict.fromkeys(named)
            if os.path.exists(python) and now - self._missing.get(python, (float("-inf"), ""))[0] >= _LOOK_AGAIN_S
        ]

    def _ask(self, python: str, uuid: str, stopper: Stopper) -> Dict[str, Any]:
        words = [python, "-I", "-c", self._source, "--limit", str(int(LIMIT_S)), *self._arguments]
        environment = {"PATH": os.environ.get("PATH", ""), "CUDA_VISIBLE_DEVICES": uuid, "HOME": "/nonexistent"}
        # It ends when our end of its input is closed, and so with the agent.
        its_end, our_end = os.pipe()
        try:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=its_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            stopper.watch(process)
            said = _said(process)
        except OSError as error:
            return {"missing": "{} cannot be run: {}".format(python, error.strerror)}
        finally:
            os.close(its_end)
            os.close(our_end)
        return _read(said)


def _said(process: "subprocess.Popen[bytes]") -> bytes:
    try:
        return process.communicate(timeout=LIMIT_S + 5.0)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return b""


def _read(said: bytes) -> Dict[str, Any]:
    """The answer, or that there is none: a program that dies on a GPU, or never returns, has found something."""
    try:
        answer = json.loads(said.decode(errors="replace").strip().rsplit("\n", 1)[-1])
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"ok": False, "detail": "the work did not come to an end within {:.0f} s, or broke off".format(LIMIT_S)}


def _outcome(answer: Dict[str, Any]) -> Outcome:
    def number(name: str) -> Optional[float]:
        value = answer.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    return Outcome(
        is_right=answer.get("ok") is True,
        detail=str(answer.get("detail", ""))[:300],
        tflops=number("tflops"),
        gb_s=number("gb_s"),
        how="matmul",
    )
