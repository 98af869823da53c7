"""The option `--export`: the variables of the submitter that a job gets."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Commas within quotes separate nothing, and the quotes stay in the value.
_PART = re.compile(r"""(?:[^,'"]|'[^']*(?:'|$)|"[^"]*(?:"|$))+""")


def assigned(value: str) -> dict[str, str]:
    """The variables to which the option gives values."""
    named = (part.partition("=") for part in _PART.findall(value))
    return {name: given for name, equals, given in named if equals and name}


def exports_all(value: str) -> bool:
    """True if the job gets the whole environment; of an option that is not given the value is `ALL`."""
    return "ALL" in value.upper().split(",")


def exported(environment: Mapping[str, str], value: str) -> dict[str, str]:
    """The part of the submitter's environment that the option names, with its own values.

    Slurm's variables always come along, as in Slurm. Muster's never do: they may be credentials.
    """
    everything = exports_all(value)
    names = set(_PART.findall(value))
    kept = {
        name: given
        for name, given in environment.items()
        if not name.startswith("MUSTER_") and (everything or name in names or name.startswith("SLURM_"))
    }
    return kept | assigned(value)
