"""Patterns for the kind of a line: warning, information, exception, traceback frame, progress."""

from __future__ import annotations

from typing import Any

import re2

from scheduler.diagnosis.patterns import options_of


def _any(*patterns: str, begin: str = "", end: str = "", flags: str = "") -> Any:
    """One pattern for bytes that matches whatever any of the patterns matches."""
    return re2.compile(f"{flags}{begin}(?:{'|'.join(patterns)}){end}".encode(), options_of(case_sensitive=True))


_BEFORE_LEVEL, _AFTER_LEVEL = r"(?:^|[\s\[(:|=\"'/])", r"(?:[\s\])(:|,\"'/]|$)"

WARNING = _any(
    rf"{_BEFORE_LEVEL}(?:WARN(?:ING)?|DEBUG|TRACE|warn(?:ing)?|debug){_AFTER_LEVEL}",
    r"\[W[ \d]",
    r"(?:^|\s)W(?:\d{4}| tensorflow|\s+\w+/)",
    r"\w+Warning:",
)
# NCCL's highest level is WARN, and Kubernetes events have no level above Warning.
SEVERE_WARNINGS = _any("NCCL WARN", r"^Warning  ?\w+", "kubelet", r"Warning\s+(?:Evicted|Failed|BackOff)")
INFO = _any(
    rf"{_BEFORE_LEVEL}(?:INFO|NOTICE|info|notice){_AFTER_LEVEL}",
    r"\[I[ \d]",
    r"(?:^|\s)I\d{4}\s",
)
CONTINUES = _any(
    r"\bretry(?:ing|$|[\s,.:] ?)",
    r"will (?:be )?retr(?:y|ied)",
    "retries left",
    r"attempt \d+ ?(?:/|of) ?\d+",
    r"fall(?:ing|s)? ?back",
    r"\bignor(?:ed|ing)\b",
    r"\bskipp(?:ed|ing)\b",
    r"\brecovered\b",
    "trying again",
    "try again later",
    "not critical",
    "non-fatal",
    "harmless",
    flags="(?i)",
)
# Boxed tracebacks print their source between bars and the exception below the box. Notebooks number their source.
BOXED = _any("^[^\\n]{0,60}(?:\u2502|\u256d|\u2570)(?:$| |\u2500)", r"^[ \t]*-*>?[ \t]*\d{1,5} .{0,40}\braise ")
FRAME = _any(r'File "[^"\n]{1,300}", line \d+', begin="^.{0,120}")
EXCEPTION = _any(
    "Error",
    "Exception",
    "Interrupt",
    "Exit",
    "Failure",
    "Timeout",
    "NotFound",
    "Expired",
    begin=r"^(?:[^\n]{0,80}[\]:|>] ?)?[ \t\"+]*(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*",
    end=r"\w*(?::|$| \()",
)
PROGRESS = _any(
    r"\b(?:epochs?|steps?|iter(?:ation)?s?|batch|global_step|ep)\b[ =:#\[(]{0,3}\d[^\n]{0,160}",
    r"\d{1,3}%\|[^\n]{0,200}",
    r"\d(?:it/s|s/it)[^\n]{0,80}",
    r"\b(?:loss|ppl|acc(?:uracy)?|lr)\b[ =:]{1,3}[+-]?\d[^\n]{0,160}",
    begin=r"^[^\n]{0,160}",
    end="$",
    flags="(?im)",
)
TROUBLE = _any(
    *("error", "exception", "fail", "fatal", "traceback", "abort", "killed", r"\bnan\b", r"\binf\b", "out of"),
    *("invalid", "timed? ?out", "caught", "unable", "cannot", "refused", 'File "'),
    flags="(?i)",
)
