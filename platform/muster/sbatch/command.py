"""The command of a spec that runs a script as the program that its first line names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_END = "END_OF_THE_SCRIPT"
_NEEDS = (
    'command -v "$MUSTER_PYTHON" >/dev/null && test -x "$MUSTER_COMMANDS/muster-batch" || '
    "{ echo 'muster: a batch script needs Python: use an image that has python3, or none' >&2; exit 127; }"
)


def command_of(script: str, arguments: Sequence[str]) -> str:
    """A shell command that writes the script to a file and becomes its supervisor, with the arguments."""
    text = script if script.endswith("\n") else f"{script}\n"
    end = _END
    while end in text:
        end += "_"
    run = shlex.join(arguments)
    start = f'exec "$MUSTER_COMMANDS/muster-batch" "$PWD/slurm_script" {run}'.rstrip()
    return f"{_NEEDS}\ncat > slurm_script <<'{end}' && chmod u+x slurm_script && {start}\n{text}{end}\n"
