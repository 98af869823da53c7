"""The command of a spec that runs a script as the program that its first line names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_END = "END_OF_THE_SCRIPT"


def command_of(script: str, arguments: Sequence[str]) -> str:
    """A shell command that writes the script to a file and becomes that, with the arguments."""
    text = script if script.endswith("\n") else f"{script}\n"
    end = _END
    while end in text:
        end += "_"
    run = shlex.join(["./slurm_script", *arguments])
    return f"cat > slurm_script <<'{end}' && chmod u+x slurm_script && exec {run}\n{text}{end}\n"
