"""The GPU self-test: a separate Python multiplies matrices on the GPU and compares the result with the known one."""

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

from nodeagent.gpu.port import SelfTestResult

_log = logging.getLogger("nodeagent.self_test")

LIMIT_S = 60.0
"""Most of it goes to loading PyTorch and initialising CUDA."""
_RETRY_MISSING_S = 3600.0
"""Seconds that a Python without PyTorch or CUDA is skipped."""


class Stopper:
    """Ends a running self-test at once, from another thread."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._mutex = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None

    def stop(self) -> None:
        """Kill the running process, and any that is started later."""
        with self._mutex:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    def watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Register the process that `stop` kills."""
        with self._mutex:
            self._process = process
            if self._stopped.is_set():
                process.kill()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a stop; return whether one came."""
        return self._stopped.wait(seconds)

    @property
    def is_stopped(self) -> bool:
        """True once a stop was asked for."""
        return self._stopped.is_set()


class SelfTest:
    """Runs `matmul.py` in a separate Python: `auto` searches for one, `none` disables the test, else a path."""

    def __init__(self, python: str, arguments: Sequence[str] = ()) -> None:
        self._named = python
        self._arguments = tuple(arguments)
        self._missing: Dict[str, Tuple[float, str]] = {}
        source = pkgutil.get_data("nodeagent.gpu", "matmul.py")
        self._source = (source or b"").decode()

    def run(self, uuid: str, stopper: Stopper) -> Optional[SelfTestResult]:
        """Test one GPU; None if the test was stopped, or if no Python here has PyTorch with CUDA."""
        for python in self._candidates():
            answer = self._ask(python, uuid, stopper)
            if stopper.is_stopped:
                return None
            if "missing" not in answer:
                return _result_of(answer)
            why = str(answer["missing"])[:300]
            _log.info("no GPU self-test by %s: %s", python, why)
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
            if os.path.exists(python) and now - self._missing.get(python, (float("-inf"), ""))[0] >= _RETRY_MISSING_S
        ]

    def _ask(self, python: str, uuid: str, stopper: Stopper) -> Dict[str, Any]:
        words = [python, "-I", "-c", self._source, "--limit", str(int(LIMIT_S)), *self._arguments]
        environment = {"PATH": os.environ.get("PATH", ""), "CUDA_VISIBLE_DEVICES": uuid, "HOME": "/nonexistent"}
        # The program exits when its stdin is closed, and thus with the agent.
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=read_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            stopper.watch(process)
            output = _output_of(process)
        except OSError as error:
            return {"missing": "{} cannot be run: {}".format(python, error.strerror)}
        finally:
            os.close(read_end)
            os.close(write_end)
        return _parse(output)


def _output_of(process: "subprocess.Popen[bytes]") -> bytes:
    try:
        return process.communicate(timeout=LIMIT_S + 5.0)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return b""


def _parse(output: bytes) -> Dict[str, Any]:
    """The answer of the program; one that crashed or timed out counts as a failed test."""
    try:
        answer = json.loads(output.decode(errors="replace").strip().rsplit("\n", 1)[-1])
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"ok": False, "detail": "the self-test crashed or did not finish within {:.0f} s".format(LIMIT_S)}


def _result_of(answer: Dict[str, Any]) -> SelfTestResult:
    def number(name: str) -> Optional[float]:
        value = answer.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    return SelfTestResult(
        is_right=answer.get("ok") is True,
        detail=str(answer.get("detail", ""))[:300],
        tflops=number("tflops"),
        gb_s=number("gb_s"),
        how="matmul",
    )
