"""The applications of Pollux's evaluation as measured: step times by placement, progress by batch size.

A folder per application has `placements.csv` (placement as digits, one per node; local_bsz, step_time, sync_time),
`scalability.csv` (num_nodes, num_replicas, …) and one `validation-<batch size>.csv` for each batch size that was
trained to the end (progress, iteration, grad_sqr, grad_var after each epoch). Source: Qiao et al., "Pollux:
Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, §5.1 and its artifact.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.sim.work import Layout

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator

Floats = npt.NDArray[np.float64]

# The number of epochs of each application, and the largest local batch size where more needs larger GPUs.
_EPOCHS: Mapping[str, int] = {
    "bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50,
}  # fmt: skip
_MAX_LOCAL: Mapping[str, int] = {"yolov3": 8}
_NOT_DISTRIBUTED = frozenset({"ncf"})

_MAX_NODES = 16  # the largest measured cluster

_FLAT = 1e-9  # six times the volume of a degenerate tetrahedron, in nodes times GPUs times samples


class ApplicationError(ValueError):
    """Measurements that are missing or malformed; the message names the file."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """The parts of a job's iteration: samples per GPU and pass, and passes that only accumulate gradients."""

    atomic: int
    accumulated: int

    def batch(self, gpus: int) -> int:
        """The samples of one iteration on `gpus` GPUs."""
        return gpus * self.atomic * (self.accumulated + 1)


# No slots and not frozen: cached properties are stored in the instance. Its meaning never changes.
@dataclass(eq=False)
class Application:
    """One application: its measurements, and the interpolation between them."""

    name: str
    epochs: int
    smallest_local: int  # samples on one GPU in one pass, as measured
    largest_local: int
    batches: tuple[int, ...]  # the validated batch sizes, ascending
    progress: Floats  # after each epoch, the minimum over all batch sizes
    iterations: Floats  # [batch, epoch], after each epoch
    grad_sqr: Floats  # [batch, epoch]
    grad_var: Floats  # [batch, epoch]
    placed: Mapping[Layout, tuple[Floats, Floats]]  # smallest rotation -> local sizes, [step, sync] by size
    grid: tuple[Floats, Floats]  # (nodes, GPUs, local size), (step, sync): for placements that were not measured
    _mesh: LinearNDInterpolator | None = None
    _times: dict[tuple[Layout, int], tuple[float, float] | None] = field(default_factory=dict)
    _gains: dict[int, Floats] = field(default_factory=dict)

    @property
    def first_batch(self) -> int:
        """The batch size for which the application was written."""
        return self.batches[0]

    def iteration(self, batch: int, gpus: int, *, accumulates: bool = False) -> Iteration | None:
        """The iteration on `gpus` GPUs of a job tuned to `batch` samples; None if it cannot split its batch so.

        With `accumulates` at least one pass accumulates.
        """
        local = math.ceil(batch / gpus - 1e-8)
        accumulated = math.ceil(local / self.largest_local - 1e-8) - 1
        # On one GPU, the gradient noise can only be estimated from two passes or more.
        if accumulates or (gpus == 1 and batch > self.first_batch):
            accumulated = max(1, accumulated)
        atomic = math.ceil(local / (accumulated + 1) - 1e-8)
        atomic = min(atomic, int(self.batches[-1] / (gpus * (accumulated + 1))))
        return Iteration(atomic, accumulated) if atomic > 0 else None

    def largest_gang(self, batch: int) -> int:
        """The maximum number of GPUs for a job tuned to `batch` samples: each gets the smallest measured share."""
        return 1 if self.name in _NOT_DISTRIBUTED else max(1, batch // self.smallest_local)

    def times_s(self, layout: Layout, local: int) -> tuple[float, float] | None:
        """Seconds of one pass and of its synchronisation; None outside the measured range.

        Between measured sizes the times are interpolated linearly; outside of them they are clamped.
        """
        key = (smallest_rotation(layout), local)
        if key not in self._times:
            self._times[key] = self._interpolate(*key)
        return self._times[key]

    def seconds_per_iteration(self, layout: Layout, iteration: Iteration) -> float:
        """The seconds of one iteration with all its passes; infinite outside the measured range."""
        times = self.times_s(layout, iteration.atomic)
        if times is None:
            return math.inf
        step_s, sync_s = times
        return step_s + (step_s - sync_s) * iteration.accumulated

    def gains(self, batch: int) -> Floats:
        """Progress per iteration with this batch size, for each epoch (Pollux §3.1: efficiency times scale)."""
        if batch not in self._gains:
            scale = batch / self.first_batch
            sqr, var = self._between(self.grad_sqr, batch), self._between(self.grad_var, batch)
            self._gains[batch] = np.asarray((var + sqr) / (var / scale + sqr), dtype=np.float64)
        return self._gains[batch]

    def iterations_after(self, batch: float, epoch: int) -> float:
        """The iterations that a job with this batch size has done at the end of the epoch, counted from 0."""
        return float(np.interp(batch, self.batches, self.iterations[:, epoch]))

    def _between(self, table: Floats, batch: int) -> Floats:
        # Like numpy's interp for each epoch, but for all epochs at once.
        if batch <= self.batches[0]:
            return np.asarray(table[0])
        if batch >= self.batches[-1]:
            return np.asarray(table[-1])
        above = bisect_right(self.batches, batch)
        low, high = self.batches[above - 1], self.batches[above]
        return np.asarray((table[above] - table[above - 1]) / (high - low) * (batch - low) + table[above - 1])

    def _interpolate(self, layout: Layout, local: int) -> tuple[float, float] | None:
        if layout in self.placed:
            sizes, times = self.placed[layout]
            return float(np.interp(local, sizes, times[:, 0])), float(np.interp(local, sizes, times[:, 1]))
        if self._mesh is None:
            self._mesh = _mesh(*self.grid)
        step_s, sync_s = self._mesh([[min(len(layout), _MAX_NODES), sum(layout), local]])[0]
        return None if math.isnan(step_s) else (float(step_s), float(sync_s))


def _mesh(points: Floats, values: Floats) -> LinearNDInterpolator:
    """Linear interpolation within each tetrahedron of the Delaunay mesh of the points."""
    # Loading scipy takes a second, which simulations without such applications would pay too.
    from scipy.interpolate import LinearNDInterpolator  # noqa: PLC0415
    from scipy.spatial import Delaunay  # noqa: PLC0415

    mesh = Delaunay(points)
    # For its first answer scipy solves a small system for each tetrahedron in BLAS, whose threads take seconds for it
    # when they share processors with other work. These systems have a closed form; given the solutions, scipy does not
    # solve them.
    corners: npt.NDArray[np.int32] = mesh.simplices
    origin = points[corners[:, 3]]
    a, b, c = (points[corners[:, corner]] - origin for corner in range(3))
    normals = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    volume = np.sum(a * normals[:, 0], axis=1)
    volume[np.abs(volume) < _FLAT] = math.nan  # grid points also make tetrahedra without volume
    solved = np.concatenate([normals / volume[:, None, None], origin[:, None, :]], axis=1)
    solved[np.isnan(volume)] = math.nan
    mesh._transform = solved
    return LinearNDInterpolator(mesh, values)


def smallest_rotation(layout: Layout) -> Layout:
    """The layout as the measurements name it: its smallest rotation, without empty nodes."""
    used = tuple(gpus for gpus in layout if gpus)
    return min((used[turn:] + used[:turn] for turn in range(len(used))), default=())


def load_applications(folder: Path) -> Mapping[str, Application]:
    """All applications with a folder of measurements in `folder`, by name.

    Raises:
        ApplicationError: there is no such folder, or measurements are malformed.
    """
    if not folder.is_dir():
        raise ApplicationError(f"{folder}: no such folder of measured applications")
    found = {each.name: load_application(each) for each in sorted(folder.iterdir()) if each.is_dir()}
    if not found:
        raise ApplicationError(f"{folder}: no folder of a measured application here")
    return MappingProxyType(found)


def load_application(folder: Path) -> Application:
    """The application measured in this folder, named like it."""
    placements = _placements(folder / "placements.csv")
    sizes = [local for rows in placements.values() for local, _, _ in rows]
    batches, tables = _validations(folder)
    epochs = _EPOCHS.get(folder.name, min(len(table) for table in tables))
    if any(len(table) < epochs for table in tables):
        raise ApplicationError(f"{folder}: a validation file has fewer than {epochs} epochs")
    curves = np.stack([table[:epochs] for table in tables])  # [batch, epoch, column]
    progress = curves[:, :, 0].min(axis=0)
    if not (np.diff(progress, prepend=0.0) > 0).all():
        raise ApplicationError(f"{folder}: the progress does not grow from epoch to epoch")
    return Application(
        name=folder.name,
        epochs=epochs,
        smallest_local=int(min(sizes)),
        largest_local=_MAX_LOCAL.get(folder.name, int(max(sizes))),
        batches=tuple(batches),
        progress=progress,
        iterations=curves[:, :, 1],
        grad_sqr=curves[:, :, 2],
        grad_var=curves[:, :, 3],
        placed={
            layout: (np.array([row[0] for row in rows]), np.array([row[1:] for row in rows]))
            for layout, rows in placements.items()
        },
        grid=_grid(placements, folder / "scalability.csv"),
    )


Row = tuple[float, float, float]  # local size, step s, sync s


def _placements(path: Path) -> dict[Layout, list[Row]]:
    found: dict[Layout, list[Row]] = {}
    for line, row in _rows(path, ("placement", "local_bsz", "step_time", "sync_time")):
        layout = tuple(int(digit) for digit in str(int(row[0])))
        if smallest_rotation(layout) != layout:
            raise ApplicationError(f"{path}, line {line}: placement {int(row[0])} is not its smallest rotation")
        found.setdefault(layout, []).append((row[1], row[2], row[3]))
    for rows in found.values():
        rows.sort()
    return found


def _grid(placements: Mapping[Layout, Sequence[Row]], scalability: Path) -> tuple[Floats, Floats]:
    # The mean over the placements with this number of GPUs and nodes, then the measurements on more nodes.
    means: dict[tuple[float, float, float], list[tuple[float, float]]] = {}
    for layout, rows in placements.items():
        for local, step_s, sync_s in rows:
            means.setdefault((len(layout), sum(layout), local), []).append((step_s, sync_s))
    points = [(*place, *np.mean(times, axis=0)) for place, times in sorted(means.items())]
    columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
    points += [tuple(row) for _, row in _rows(scalability, columns)]
    table = np.array(points, dtype=np.float64)
    return table[:, :3], table[:, 3:]


def _validations(folder: Path) -> tuple[list[int], list[Floats]]:
    files: dict[int, Path] = {}
    for path in folder.glob("validation-*.csv"):
        size = path.stem.removeprefix("validation-")
        if not size.isdigit():
            raise ApplicationError(f"{path}: the name does not end in a batch size")
        files[int(size)] = path
    if not files:
        raise ApplicationError(f"{folder}: no validation-<batch size>.csv here")
    columns = ("progress", "iteration", "grad_sqr", "grad_var")
    batches = sorted(files)
    return batches, [np.array([row for _, row in _rows(files[size], columns)]) for size in batches]


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[float]]]:
    """The line number and the named columns of each row of a file of numbers."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise ApplicationError(f"{path}: no column {missing[0]!r}")
            for row in reader:
                yield reader.line_num, [_number(path, reader.line_num, row[name]) for name in columns]
    except OSError as error:
        raise ApplicationError(f"{path}: {error.strerror}") from None


def _number(path: Path, line: int, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ApplicationError(f"{path}, line {line}: {text!r} is not a measurement")
    return value
