"""Times that something takes, as Slurm's commands print them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """The time as squeue and sinfo have it: `1-02:03:04`, `2:03:04` or `3:04`."""
    days, hours, minutes, left = _parts(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def padded_clock(seconds: float) -> str:
    """The time as sacct and scontrol have it: `1-02:03:04` or `00:03:04`."""
    days, hours, minutes, left = _parts(seconds)
    return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:{left:02}"


def _parts(seconds: float) -> tuple[int, int, int, int]:
    minutes, left = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, left
