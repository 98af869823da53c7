"""Answers of Slurm's commands as JSON."""

from __future__ import annotations

from muster.slurm.call import Answer
from muster.slurm.sbatch import Submitted
from muster_client.answers.forecast import SlurmAnswer, SubmittedScript


def answer(found: Answer) -> SlurmAnswer:
    """The output of a command."""
    return {"stdout": found.stdout, "stderr": found.stderr, "exit_code": found.exit_code}


def submitted(found: Submitted) -> SubmittedScript:
    """The output of sbatch, and what it has submitted."""
    return {**answer(found.answer), "job": found.job, "array": found.array, "wait": found.waits}
