"""The commands by name. A new one is a function of a call, its options, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster.slurm import scancel, squeue
from muster.slurm.call import Answer, Call, Refused
from muster.slurm.options import Option
from muster.slurm.sacct import command as sacct
from muster.slurm.scontrol import command as scontrol
from muster.slurm.sinfo import command as sinfo


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and its options."""

    run: Callable[[Call], Answer]
    options: Sequence[Option]


COMMANDS: Mapping[str, Command] = {
    "sacct": Command(sacct.sacct, sacct.OPTIONS),
    "scancel": Command(scancel.scancel, scancel.OPTIONS),
    "scontrol": Command(scontrol.scontrol, scontrol.OPTIONS),
    "sinfo": Command(sinfo.sinfo, sinfo.OPTIONS),
    "squeue": Command(squeue.squeue, squeue.OPTIONS),
}


def answer_to(command: str, call: Call) -> Answer:
    """The answer of the command, also where it refuses the call; `KeyError` if there is no such command."""
    try:
        return COMMANDS[command].run(call)
    except Refused as refused:
        return refused.answer
