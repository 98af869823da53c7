"""The scripts that are given to Slurm and to Muster, and the cluster on which both see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from muster.sbatch.site import NodeFacts, Partition, Qos, Site
from muster.sbatch.translate import Submission

FOLDER = Path(__file__).parent
RECORD = FOLDER / "slurm-22.05.8.json"
GPUS, CPUS, MEMORY_MIB = 4, 16, 131_072
FEATURES = {"n1": "a100,nvlink,ib", "n2": "a100,nvlink,ib", "n3": "a100,ib", "n4": "a100"}
NAME = "s.sh"


@dataclass(frozen=True, slots=True)
class Case:
    """A script with what is given beside it; `key` names it in the record."""

    key: str
    script: str
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def submission(self) -> Submission:
        return Submission(self.script, NAME, self.options, (), self.environment)


def cases() -> list[Case]:
    """All cases, of cases.yaml."""
    listed: dict[str, list[Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text())
    found = [Case(text, _with(text)) for text in listed["directives"]]
    for one in (*listed["options"], *listed["environment"]):
        variables = one.get("set", {})
        words = [one["directive"], *one["options"], *(f"{name}={value}" for name, value in variables.items())]
        found.append(Case(" | ".join(words), _with(one["directive"]), one["options"], variables))
    found += [Case(text, text) for text in listed["scripts"]]
    assert len({case.key for case in found}) == len(found)
    return found


def _with(directive: str) -> str:
    return f"#!/bin/bash\n#SBATCH {directive}\nexec sleep 60\n"


def site() -> Site:
    """The same cluster in Muster's terms: one tenant with a virtual cluster in each partition."""
    nodes = tuple(
        NodeFacts(name, GPUS, CPUS, MEMORY_MIB, frozenset(listed.split(","))) for name, listed in FEATURES.items()
    )
    return Site(
        {
            "gpu": Partition("gpu", ("lab-gpu",), nodes, ("a100",), 60, 4320),
            "debug": Partition("debug", ("lab-debug",), nodes, ("a100",), 10, 30, 2),
        },
        {"lab": ("lab-gpu", "lab-debug")},
        {"normal": Qos()},
    )
