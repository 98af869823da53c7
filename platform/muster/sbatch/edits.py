"""Edits of the table of Slurm's words, and what its words mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import yaml
from django.db import IntegrityError, transaction
from django.db.models import Count, Q

from muster.common.errors import Conflict, Invalid
from muster.events.services import audit
from muster.fleet.models import Pool
from muster.sbatch.models import MAX_TABLE_CHARS, SlurmTable
from muster.sbatch.selectors import newest_table
from muster.sbatch.table import Known, Table, read_table, require_known
from muster.tenants.models import Tenant, VirtualCluster
from scheduler.documents import FLOAT
from scheduler.model.lifecycle import NodeAdmin


class _Dumper(yaml.SafeDumper):
    """Quotes text that only YAML 1.2 reads as a number, such as 1e3."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a word, as a sentence for operators."""

    kind: str
    word: str
    says: str


def edit_table(*, text: str, version: int, actor: str) -> SlurmTable:
    """The next version of the table, which holds from now on.

    Raises:
        Invalid: names each wrong field.
        Conflict: `version`, on which the edit is based, is not the last one.
    """
    checked_table(text)
    with transaction.atomic():
        last = newest_table()
        if last.version != version:
            raise _stale(last, version)
        try:
            with transaction.atomic():
                row = SlurmTable.objects.create(version=version + 1, text=text, author=actor)
        except IntegrityError:  # another edit was faster
            raise _stale(newest_table(), version) from None
        before, after = {"text": last.text}, {"text": text}
        audit("change", "slurm_table", row.version, actor=actor, before=before, after=after)
    row.refresh_from_db()
    return row


def checked_table(text: str) -> Table:
    """The table of a text whose pools, tenants and virtual clusters exist; `Invalid` names each wrong field."""
    if len(text) > MAX_TABLE_CHARS:
        raise Invalid.field("table", f"write at most {MAX_TABLE_CHARS:,} characters")
    table = read_table(text)
    pools = frozenset(Pool.objects.values_list("name", flat=True))
    tenants = frozenset(Tenant.objects.values_list("name", flat=True))
    vcs = VirtualCluster.objects.filter(closed_at__isnull=True).values_list("name", "tenant__name")
    require_known(table, Known(pools, tenants, dict(vcs)))
    return table


def as_text(table: object) -> str:
    """The table as YAML; its keys keep their order, and comments of the version before are lost."""
    return str(yaml.dump(table, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=200))


def meanings(table: Table) -> Iterator[Meaning]:
    """The present meaning of each word, in the order of the table."""
    in_use = Count("nodes", filter=~Q(nodes__admin=NodeAdmin.RETIRED))
    nodes = dict(Pool.objects.annotate(number=in_use).values_list("name", "number"))
    of_pool, of_tenant = defaultdict(list), defaultdict(list)
    clusters = VirtualCluster.objects.filter(closed_at__isnull=True).order_by("name")
    for name, pool, tenant in clusters.values_list("name", "pool__name", "tenant__name"):
        of_pool[pool].append(name)
        of_tenant[tenant].append(f"{name} in pool {pool}")
    for word, partition in table.partitions.items():
        says = [
            f"pool {partition.pool} with {_counted(nodes.get(partition.pool, 0))}",
            f"virtual clusters {_listed(of_pool[partition.pool])}",
            *([_time("without --time", default)] if (default := partition.time or partition.max_time) else []),
            _time("at most", partition.max_time),
        ]
        if partition.max_nodes is not None:
            says.append(f"at most {_counted(partition.max_nodes)} a job")
        if partition.memory_per_cpu is not None:
            says.append(f"{partition.memory_per_cpu} MiB a CPU without --mem")
        yield Meaning("partition", word, _said(says, partition.default))
    for word, account in table.accounts.items():
        there = [one for one in of_tenant[account.tenant] if account.vc in {None, one.partition(" ")[0]}]
        says = [f"tenant {account.tenant}", f"virtual clusters {_listed(there)}"]
        yield Meaning("account", word, _said(says, account.default))
    for word, qos in table.qos.items():
        says = [f"priority {qos.priority}", f"class {qos.klass.value}", _time("at most", qos.max_time)]
        yield Meaning("quality of service", word, _said(says, qos.default))
    for folder in table.shared_folders:
        yield Meaning("shared folder", folder, "scripts that are submitted in it or below it run there")


def _stale(row: SlurmTable, version: int) -> Conflict:
    newest = f"{row.author} stored version {row.version}" if row.version else "no version is stored yet, so it is 0"
    return Conflict(
        f"{newest}; this edit is of version {version}, and nothing was stored. Load it again and repeat the edit"
    )


def _counted(nodes: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _time(what: str, limit_min: int | None) -> str:
    if limit_min is None:
        return "no time limit"
    days, rest = divmod(limit_min, 24 * 60)
    return f"{what} {f'{days} d ' if days else ''}{rest // 60}:{rest % 60:02} h"


def _said(says: list[str], default: bool) -> str:
    return "; ".join([*says, "the default"] if default else says)
