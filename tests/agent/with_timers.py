"""`python -m tests.agent.with_timers run …`: the agent, with the waits of `timers.yaml`.

An agent is a process of its own, so a test cannot patch its constants.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import yaml

from nodeagent.cli.main import main

TIMERS: dict[str, dict[str, float]] = yaml.safe_load(Path(__file__).with_name("timers.yaml").read_text())


def set_timers() -> None:
    """Set the constants.

    Raises:
        AttributeError: a module has no such constant.
    """
    for name, values in TIMERS.items():
        module = importlib.import_module(name)
        for constant, value in values.items():
            getattr(module, constant)
            setattr(module, constant, value)


if __name__ == "__main__":
    set_timers()
    sys.exit(main())
