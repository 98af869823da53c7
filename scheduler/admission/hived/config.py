"""The configuration of cells: cell types, physical cells, and what each virtual cluster owns of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


class CellConfigError(ValueError):
    """A configuration is wrong or does not fit. `field` names the place in it, `message` says what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


@dataclass(frozen=True, slots=True)
class CellType:
    """A cell type consists of `number` cells of the type `child`. A cell type of `node` level is a node's GPUs."""

    child: str
    number: int
    node: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalCell:
    """A physical cell: the name of a node, the index of a GPU, or the number of a cell among its buddies."""

    address: str
    children: tuple[PhysicalCell, ...] = ()
    pinned: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The cells of a virtual cluster: a number by fully qualified type, and pinned cells by id."""

    cells: Mapping[str, int] = field(default_factory=dict)
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """The cell types under one top-level type, from the leaf (level 0) up; `node` is the level of a whole node."""

    name: str
    types: tuple[str, ...]
    sizes: tuple[int, ...]  # GPUs of a cell
    fanout: tuple[int, ...]  # children of a cell
    node: int

    @property
    def leaf_type(self) -> str:
        """The type of the GPUs."""
        return self.types[0]

    @property
    def top(self) -> int:
        """The level of the whole cell."""
        return len(self.types) - 1

    def path(self, level: int) -> str:
        """The fully qualified type of the cells of a level."""
        return ".".join(reversed(self.types[level:]))


# Compared by identity, so that a topology can be kept for it.
@dataclass(frozen=True, eq=False)
class CellConfig:
    """A checked configuration. `physical` has the top-level type and the cell, in order."""

    types: Mapping[str, CellType]
    physical: tuple[tuple[str, PhysicalCell], ...]
    clusters: Mapping[str, Assignment]
    chains: Mapping[str, Chain] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for name, _ in self.physical)
        object.__setattr__(self, "chains", {name: _chain(name, self.types) for name in names})
        _Check(self).run()

    def assign(self, clusters: Mapping[str, Assignment]) -> CellConfig:
        """The same physical cells, assigned to these virtual clusters instead.

        Raises:
            CellConfigError: the assignment does not fit.
        """
        return CellConfig(self.types, self.physical, clusters)

    def fitted(self, clusters: Mapping[str, Assignment]) -> CellConfig:
        """As `assign`, without the cells that do not fit: of each type those with the highest numbers are left out.

        A cell below a rack that has another size now, because a node has left or joined, is looked for in other racks.
        """
        try:
            return self.assign(clusters)
        except CellConfigError:
            pinned = {vc: tuple(pin for pin in one.pinned if self._has(pin)) for vc, one in clusters.items()}
            bare = self.assign({vc: Assignment({}, pins) for vc, pins in pinned.items()})
        check, needs = _Check(bare), {name: Counter[int]() for name in self.chains}
        check.run()
        kept: dict[str, Counter[str]] = {vc: Counter() for vc in clusters}

        def keep(vc: str, path: str, number: int) -> int:
            """Keep as many cells of this type as fit; returns how many are left."""
            try:
                chain, level = self.level(path, field="")
            except CellConfigError:
                return number
            while number:
                needs[chain.name][level] += 1
                try:
                    check.fits(chain, needs[chain.name], check.whole[chain.name])
                except CellConfigError:
                    needs[chain.name][level] -= 1
                    break
                kept[vc][path] += 1
                number -= 1
            return number

        wanted = [(path, vc, number) for vc, one in clusters.items() for path, number in one.cells.items()]
        left = [
            (path, vc, more)
            for path, vc, number in sorted(wanted, key=lambda each: each[0].count("."))  # the larger cells first
            if (more := keep(vc, path, number))
        ]
        for path, vc, more in left:
            inner, number = path.partition(".")[2], more
            for name in sorted(self.chains) if inner else ():
                number = keep(vc, f"{name}.{inner}", number)
        return self.assign({vc: Assignment(kept[vc], pinned[vc]) for vc in clusters})

    def _has(self, pin: str) -> bool:
        return any(_depth_of(cell, pin) is not None for _, cell in self.physical)

    def size_of(self, path: str) -> tuple[str, int]:
        """The GPU type of a fully qualified cell type, and the GPUs of one cell."""
        chain, level = self.level(path, field=f"cells.{path}")
        return chain.leaf_type, chain.sizes[level]

    def size_of_pin(self, pin: str) -> tuple[str, int]:
        """The GPU type of a pinned cell and its GPUs."""
        for name, cell in self.physical:
            chain, level = self.chains[name], self.chains[name].top
            if (depth := _depth_of(cell, pin)) is not None:
                return chain.leaf_type, chain.sizes[level - depth]
        raise CellConfigError("pinned", f"there is no cell {pin}")

    def level(self, path: str, *, field: str) -> tuple[Chain, int]:
        """The chain and the level that a fully qualified type names.

        Raises:
            CellConfigError: it names none.
        """
        around = [chain for name, chain in self.chains.items() if f"{path}.".startswith(f"{name}.")]
        for chain in around:
            for level in range(chain.top + 1):
                if chain.path(level) == path:
                    return chain, level
        paths = ", ".join(chain.path(level) for chain in around for level in range(chain.top, -1, -1))
        raise CellConfigError(
            field,
            f"{path or 'an empty type'} is no type of a physical cell; name one of {paths or ', '.join(self.chains)}",
        )


def _depth_of(cell: PhysicalCell, pin: str) -> int | None:
    """The number of levels from the cell down to the pinned cell; None: it is not there."""
    if cell.pinned == pin:
        return 0
    depths = (_depth_of(child, pin) for child in cell.children)
    return next((depth + 1 for depth in depths if depth is not None), None)


def _chain(top: str, types: Mapping[str, CellType]) -> Chain:
    names, node = [top], -1
    while (spec := types.get(names[-1])) is not None:
        if spec.child in names:
            raise CellConfigError(f"cellTypes.{names[-1]}", f"its child {spec.child} contains it")
        if spec.number < 1:
            raise CellConfigError(f"cellTypes.{names[-1]}.childCellNumber", f"{spec.number} is not a positive number")
        if spec.node:
            if node >= 0:
                raise CellConfigError(f"cellTypes.{names[-1]}.isNodeLevel", f"{names[node]} above it is a node already")
            node = len(names) - 1
        names.append(spec.child)
    if node < 0:
        raise CellConfigError(f"cellTypes.{top}", "no type from it down to the GPU is of node level (isNodeLevel)")
    types_up = tuple(reversed(names))
    fanout = (0, *(types[name].number for name in types_up[1:]))
    sizes = [1]
    for number in fanout[1:]:
        sizes.append(sizes[-1] * number)
    return Chain(top, types_up, tuple(sizes), fanout, len(types_up) - 1 - node)


class _Check:
    """Refuses physical cells that overlap or do not have the shape of their type, and assignments that do not fit."""

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        self.gpus: set[tuple[str, int]] = set()
        self.pinned: dict[str, tuple[Chain, int]] = {}
        # Whole cells that no pinned cell is part of, by chain and level.
        self.whole: dict[str, Counter[int]] = {}

    def run(self) -> None:
        referred = self._referred()
        for number, (name, cell) in enumerate(self.config.physical):
            chain = self.config.chains[name]
            whole = self.whole.setdefault(name, Counter())
            field = f"physicalCells[{number}]"
            if not self._walk(chain, chain.top, cell, field, node="", pin="", referred=referred):
                whole[chain.top] += 1
        needs: dict[str, Counter[int]] = {}
        for vc, assignment in self.config.clusters.items():
            for path, count in assignment.cells.items():
                field = f"virtualClusters.{vc}.virtualCells.{path}"
                if count < 0:
                    raise CellConfigError(field, f"{count} is less than 0")
                chain, level = self.config.level(path, field=field)
                needs.setdefault(chain.name, Counter())[level] += count
            for pin in assignment.pinned:
                if pin not in self.pinned:
                    raise CellConfigError(
                        f"virtualClusters.{vc}.pinnedCells", f"no physical cell has the pinnedCellId {pin}"
                    )
        for name, need in needs.items():
            self.fits(self.config.chains[name], need, self.whole[name])

    def _referred(self) -> set[str]:
        owners: dict[str, str] = {}
        for vc, assignment in self.config.clusters.items():
            for pin in assignment.pinned:
                if pin in owners:
                    raise CellConfigError(
                        f"virtualClusters.{vc}.pinnedCells", f"{pin} belongs to {owners[pin]} already"
                    )
                owners[pin] = vc
        return set(owners)

    def _walk(
        self, chain: Chain, level: int, cell: PhysicalCell, field: str, *, node: str, pin: str, referred: set[str]
    ) -> bool:
        """True if a pinned cell that a virtual cluster owns is the cell or a part of it."""
        if level == chain.node:
            if not cell.address:
                raise CellConfigError(f"{field}.cellAddress", "a cell of node level needs the name of its node")
            node = cell.address
        owned = cell.pinned in referred
        if cell.pinned:
            if cell.pinned in self.pinned:
                raise CellConfigError(f"{field}.pinnedCellId", f"{cell.pinned} names another cell already")
            if owned and pin:
                raise CellConfigError(f"{field}.pinnedCellId", f"{cell.pinned} is a part of the pinned cell {pin}")
            self.pinned[cell.pinned] = (chain, level)
        if level == 0:
            return self._gpu(cell, node, field) or owned
        if len(cell.children) != chain.fanout[level]:
            what = f"{chain.types[level]} has {chain.fanout[level]} cells of type {chain.types[level - 1]}"
            raise CellConfigError(f"{field}.cellChildren", f"{what}, not {len(cell.children)}")
        inner = cell.pinned if owned else pin
        parts = [
            self._walk(chain, level - 1, child, f"{field}.cellChildren[{n}]", node=node, pin=inner, referred=referred)
            for n, child in enumerate(cell.children)
        ]
        if any(parts) and not owned:  # the parts without a pinned cell stay whole
            self.whole.setdefault(chain.name, Counter())[level - 1] += parts.count(False)
        return any(parts) or owned

    def _gpu(self, cell: PhysicalCell, node: str, field: str) -> bool:
        if not cell.address.isdecimal():
            raise CellConfigError(f"{field}.cellAddress", f"{cell.address!r} is not the index of a GPU")
        gpu = (node, int(cell.address))
        if gpu in self.gpus:
            raise CellConfigError(f"{field}.cellAddress", f"GPU {gpu[1]} of node {node} is in another cell already")
        self.gpus.add(gpu)
        return False

    @staticmethod
    def fits(chain: Chain, need: Counter[int], whole: Counter[int]) -> None:
        available = 0
        for level in range(chain.top, -1, -1):
            available += whole[level]
            if need[level] > available:
                what = f"the virtual clusters own {need[level]} cells of type {chain.path(level)}"
                raise CellConfigError("virtualClusters", f"{what}, but only {available} are left for them")
            available = (available - need[level]) * chain.fanout[level]


def parse(document: object) -> CellConfig:
    """The configuration that a document in the format of HiveD describes: `physicalCluster` and `virtualClusters`.

    Raises:
        CellConfigError: a part is wrong, or the assignment does not fit.
    """
    root = _mapping(document, "configuration")
    cluster = _mapping(root.get("physicalCluster"), "physicalCluster")
    types = {}
    for name, value in _mapping(cluster.get("cellTypes"), "cellTypes").items():
        spec, field = _mapping(value, f"cellTypes.{name}"), f"cellTypes.{name}"
        child = str(spec.get("childCellType") or "")
        if not child:
            raise CellConfigError(f"{field}.childCellType", "a cell type needs the type of its children")
        types[name] = CellType(
            child, _number(spec.get("childCellNumber"), f"{field}.childCellNumber"), spec.get("isNodeLevel") is True
        )
    physical = []
    for number, value in enumerate(_list(cluster.get("physicalCells"), "physicalCells")):
        field = f"physicalCells[{number}]"
        spec = _mapping(value, field)
        top = str(spec.get("cellType") or "")
        if top not in types:
            raise CellConfigError(f"{field}.cellType", f"there is no cell type {top!r} in cellTypes")
        physical.append((top, _cell(spec, top, types, number, field, depth=0)))
    return CellConfig(types, tuple(physical), parse_clusters(root.get("virtualClusters")))


def parse_clusters(document: object) -> Mapping[str, Assignment]:
    """The assignments in the part `virtualClusters` of a configuration.

    Raises:
        CellConfigError: a part is wrong.
    """
    clusters = {}
    for vc, value in _mapping(document, "virtualClusters").items():
        field = f"virtualClusters.{vc}"
        spec = _mapping(value, field)
        cells: Counter[str] = Counter()
        for number, item in enumerate(_list(spec.get("virtualCells"), f"{field}.virtualCells")):
            place = f"{field}.virtualCells[{number}]"
            entry = _mapping(item, place)
            cells[str(entry.get("cellType") or "")] += _number(entry.get("cellNumber"), f"{place}.cellNumber")
        pinned = [
            str(_mapping(item, f"{field}.pinnedCells[{number}]").get("pinnedCellId"))
            for number, item in enumerate(_list(spec.get("pinnedCells"), f"{field}.pinnedCells"))
        ]
        clusters[vc] = Assignment(dict(cells), tuple(pinned))
    return clusters


_MAX_DEPTH = 32


def _cell(
    spec: Mapping[str, object], name: str, types: Mapping[str, CellType], number: int, field: str, *, depth: int
) -> PhysicalCell:
    """A physical cell, with default addresses: the number of the cell within its node, else within its parent."""
    if depth > _MAX_DEPTH:
        raise CellConfigError(field, "the cells are nested too deep")
    address = str(number) if spec.get("cellAddress") in {None, ""} else str(spec["cellAddress"])
    children: list[PhysicalCell] = []
    if (kind := types.get(name)) is not None:
        if kind.node and spec.get("cellAddress") in {None, ""}:
            raise CellConfigError(f"{field}.cellAddress", "a cell of node level needs the name of its node")
        given = _list(spec.get("cellChildren"), f"{field}.cellChildren") or [{}] * kind.number
        first = 0 if kind.node else number * kind.number
        for n, child in enumerate(given):
            place = f"{field}.cellChildren[{n}]"
            children.append(_cell(_mapping(child, place), kind.child, types, first + n, place, depth=depth + 1))
    return PhysicalCell(address, tuple(children), str(spec.get("pinnedCellId") or ""))


def _mapping(value: object, field: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CellConfigError(field, "it must be a mapping")
    return {str(key): item for key, item in value.items()}


def _list(value: object, field: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise CellConfigError(field, "it must be a list")
    return value


def _number(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CellConfigError(field, f"{value!r} is not a number of 0 or more")
    return value
