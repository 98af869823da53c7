"""The scripts of scripts.yaml, and the folder in which one of them runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

HERE = Path(__file__).parent
RECORD = HERE / "slurm-22.05.8.json"
TOOLS = (
    *("accelerate", "apptainer", "deepspeed", "hostname", "module", "mpirun", "nvidia-smi", "pip", "python"),
    *("ray", "torchrun"),
)
PYTHON = "/usr/bin/python3"
"""The interpreter of the tools: of the machine, since jobs run as users who cannot enter ours."""
_SH = '#!/bin/sh\nexec {python} -I -S {base}/tools.py {name} {base}/record.jsonl "$@"\n'
_CONDA = 'conda() { module conda "$@"; }\n'


@dataclass(frozen=True, slots=True)
class Script:
    """A script with what is given beside it; scripts.yaml says what each key means."""

    name: str
    script: str = ""
    options: Sequence[str] = ()
    args: Sequence[str] = ()
    set: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    order: Sequence[Sequence[str]] = ()
    at_most: int | None = None
    stdin: bool = False
    unordered: bool = False
    nodes: bool = False
    slow: bool = False

    @property
    def words(self) -> list[str]:
        """The arguments of sbatch."""
        file = [f"{self.name}.sh"] if self.script and not self.stdin else []
        return [*self.options, *file, *self.args]


def scripts() -> dict[str, Script]:
    """All scripts by name."""
    listed = yaml.safe_load((HERE / "scripts.yaml").read_text())
    return {name: Script(name, **keys) for name, keys in listed.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one run: the one of submission, beside it the tools, a home and what the tools note."""

    base: Path

    @property
    def folder(self) -> Path:
        return self.base / "job"

    @property
    def record(self) -> Path:
        return self.base / "record.jsonl"

    def environment(self, script: Script) -> dict[str, str]:
        """The variables of the submitter."""
        path = f"{self.base}/bin:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": f"{self.base}/home", "LANG": "C.UTF-8", **script.set}


def lay_out(script: Script, base: Path, uid: int, gid: int) -> Place:
    """Makes the folders of a run below `base`, which belong to the user; returns the place."""
    place = Place(base)
    (base / "bin").mkdir(parents=True)
    shutil.copy(HERE / "tools.py", base / "tools.py")
    for name in TOOLS:
        tool = base / "bin" / name
        tool.write_text(_SH.format(python=PYTHON, base=base, name=name))
        tool.chmod(0o755)
    place.record.touch()
    place.folder.mkdir()
    conda = base / "home" / "miniconda3" / "etc" / "profile.d" / "conda.sh"
    conda.parent.mkdir(parents=True)
    conda.write_text(_CONDA)
    given = {**script.files, "env.sh": f'export PATH="{base}/bin:$PATH" HOME="{base}/home"\n'}
    if script.script and not script.stdin:
        given[f"{script.name}.sh"] = script.script
    for folder in script.folders:
        (place.folder / folder).mkdir(parents=True)
    for name, text in given.items():
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_bytes(text.encode())
    for path in (base, *base.rglob("*")):
        os.chown(path, uid, gid)
        if path.is_dir():
            path.chmod(0o755)
    return place
