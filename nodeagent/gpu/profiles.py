"""The speeds of emulated GPUs, from a folder of tables: docs/operator/emulated.md has the files and their columns.

Each table is a file `NAME.csv` or `NAME.csv.gz` with a header. Several rows of one value are refused. A value that is
empty or impossible is a hole in the profile: only the job that needs it is told.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import math
import os
import re
from typing import Any, Collection, Dict, Iterator, List, Sequence, Tuple

from nodeagent.gpu.port import GpuUnavailable

_log = logging.getLogger("nodeagent.profiles")

MAX_PHASE_S = 60.0
"""The longest phase of a profile."""
_MAX_MIB = 1e9
_PHASES = ("forward", "backward")
_BRANDS = frozenset({"nvidia", "tesla", "quadro", "geforce"})
_SERIES = frozenset({"rtx", "gtx", "titan"})
# GB/s and microseconds of one link, by the words of `nvidia-smi topo -m`; NV is one NVLink, and NV4 four of them.
_LINKS = {
    "NV": (25.0, 3.0),
    "PIX": (12.0, 5.0),
    "PXB": (11.0, 6.0),
    "PHB": (10.0, 7.0),
    "NODE": (9.0, 8.0),
    "SYS": (8.0, 10.0),
    "network": (1.25, 50.0),
}

Row = Dict[str, str]


class _OutOfRange(GpuUnavailable):
    """A number that cannot be true."""


class GpuProfiles:
    """A folder's profiles of these GPU types, in plain JSON types, as `muster_gpu` reads them."""

    def __init__(self, folder: str, types: Collection[str]) -> None:
        if not os.path.isdir(folder):
            raise GpuUnavailable("{}: there is no such folder of GPU profiles".format(folder))
        self._folder = folder
        self._types = frozenset(types)
        self._names: Dict[str, str] = {}
        self.models: Dict[str, Dict[str, Dict[str, Any]]] = {}
        """By type and model: `load` in seconds; `copy`, `forward`, `backward`, `peak_mib` and `persistent_mib` as
        pairs of batch size and value, by batch size."""
        self.samples: Dict[str, List[float]] = {}
        self.links: Dict[str, Tuple[float, float]] = dict(_LINKS)
        self._read()

    def _read(self) -> None:
        series: Dict[Tuple[str, str, str], Dict[int, float]] = {}
        holes: List[str] = []

        def put(where: str, row: Row, what: str, column: str, limit: float) -> None:
            if row[column]:
                key = (_type_of(row["gpu"]), row["model"], what)
                batch_size = _batch_size(where, row["batch_size"])
                if batch_size in series.setdefault(key, {}):
                    raise GpuUnavailable("{}: a second row of the same value".format(where))
                try:
                    series[key][batch_size] = _number(where, column, row[column], limit)
                except _OutOfRange as error:
                    holes.append(str(error))

        for where, row in self._rows("compute_time", ("gpu", "model", "phase", "batch_size", "seconds")):
            if row["phase"] not in _PHASES:
                raise GpuUnavailable("{}: {!r} is neither forward nor backward".format(where, row["phase"]))
            put(where, row, row["phase"], "seconds", MAX_PHASE_S)
        for where, row in self._rows("data_transfer_time", ("gpu", "model", "batch_size", "seconds")):
            put(where, row, "copy", "seconds", MAX_PHASE_S)
        for where, row in self._rows("memory", ("gpu", "model", "batch_size", "peak_mib", "persistent_mib")):
            put(where, row, "peak_mib", "peak_mib", _MAX_MIB)
            put(where, row, "persistent_mib", "persistent_mib", _MAX_MIB)
        for (gpu_type, model, what), values in series.items():
            if values:
                self._model(gpu_type, model)[what] = sorted(values.items())
        if holes:
            _log.warning("%d values of the GPU profiles are left out; the first: %s", len(holes), holes[0])
        for where, row in self._rows("model_transfer_time", ("gpu", "model", "seconds")):
            if row["seconds"]:
                seconds = _number(where, "seconds", row["seconds"], MAX_PHASE_S)
                self._model(_type_of(row["gpu"]), row["model"])["load"] = seconds
        for where, row in self._rows("samples", ("name", "seconds")):
            limit = math.inf if row["name"].startswith("epoch_") else MAX_PHASE_S
            self.samples.setdefault(row["name"], []).append(_number(where, "seconds", row["seconds"], limit))
        for where, row in self._rows("links", ("link", "gb_s", "latency_us")):
            if row["link"] not in _LINKS:
                raise GpuUnavailable("{}: {!r} is none of {}".format(where, row["link"], ", ".join(_LINKS)))
            gb_s = _number(where, "gb_s", row["gb_s"], 1e6)
            self.links[row["link"]] = (gb_s, _number(where, "latency_us", row["latency_us"], 1e6))

    def _model(self, gpu_type: str, model: str) -> Dict[str, Any]:
        return self.models.setdefault(gpu_type, {}).setdefault(model, {})

    def _rows(self, table: str, columns: Sequence[str]) -> Iterator[Tuple[str, Row]]:
        """The rows of a table about the types of this node, each with where it stands; none without such a file."""
        path = os.path.join(self._folder, table + ".csv")
        if not os.path.exists(path):
            path += ".gz"
            if not os.path.exists(path):
                return
        try:
            with open(path, "rb") as raw, io.TextIOWrapper(gzip.open(raw) if path.endswith(".gz") else raw) as file:
                rows = csv.DictReader(file)
                if tuple(rows.fieldnames or ()) != tuple(columns):
                    raise GpuUnavailable("{}: its first line is not {}".format(path, ",".join(columns)))
                for row in rows:
                    where = "{}, line {}".format(path, rows.line_num)
                    if None in row or None in row.values():
                        raise GpuUnavailable("{}: it has not {} values".format(where, len(columns)))
                    if "gpu" not in row or self._is_here(row["gpu"]):
                        yield where, row
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise GpuUnavailable("{} cannot be read: {}".format(path, error)) from error

    def _is_here(self, name: str) -> bool:
        gpu_type = _type_of(name)
        if gpu_type not in self._types:
            return False
        known = self._names.setdefault(gpu_type, name)
        if known != name:
            raise GpuUnavailable("{}: {} and {} are both {}".format(self._folder, known, name, gpu_type))
        return True


def _type_of(name: str) -> str:
    """The platform's short name of a GPU: `NVIDIA_A100-SXM4-40GB` is an A100, `Quadro_RTX_6000` an RTX6000."""
    words = [word for word in re.split(r"[\s_]+", name) if word and word.lower() not in _BRANDS]
    series = 2 if words and words[0].lower() in _SERIES else 1
    return "".join(words[:series]).split("-")[0]


def _batch_size(where: str, text: str) -> int:
    number = _number(where, "batch_size", text, 1e6)
    if number != int(number):
        raise GpuUnavailable("{}: batch_size {} is not a whole number".format(where, text))
    return int(number)


def _number(where: str, column: str, text: str, limit: float) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise GpuUnavailable("{}: {} {!r} is not a number".format(where, column, text)) from error
    if not 0 < number <= limit or math.isinf(number):
        raise _OutOfRange("{}: {} {!r} is not a number above 0 and up to {:g}".format(where, column, text, limit))
    return number
