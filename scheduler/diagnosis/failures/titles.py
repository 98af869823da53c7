"""Titles of failure classes and end reasons, as lists and messages show them."""

from __future__ import annotations

import re

from scheduler.model.reasons import Reason

_EXCEPTION = re.compile(r"(?:^|[\s.:])([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration))\b")
_TITLES = {reason.value: reason.meaning.title for reason in Reason} | {
    "cpu_out_of_memory": "Out of host memory",
    "gpu_ecc": "GPU memory error",
    "gpu_ecc_error": "GPU memory error",
    "model_diverged": "The model diverged",
    "no_signature": "Failed without a known cause",
}
_ACRONYMS = {"cpu": "CPU", "cuda": "CUDA", "gpu": "GPU", "io": "I/O", "nccl": "NCCL", "nvlink": "NVLink"}


def title_of(failure: str, *, line: str = "", exit_code: int | None = None) -> str:
    """The title of a class or reason: "GPU out of memory", "Python exception: IndexError", "Exit code 3".

    `line` is the log line that shows the cause.
    """
    if failure == "exit_nonzero" and exit_code is not None:
        return f"Exit code {exit_code}"
    if failure == "semantic_error":
        found = _EXCEPTION.search(line)
        return f"Python exception: {found[1]}" if found else "Exception in the program"
    if failure in _TITLES:
        return _TITLES[failure]
    words = " ".join(_ACRONYMS.get(word, word) for word in failure.split("_"))
    return words[:1].upper() + words[1:]
