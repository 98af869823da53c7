"""Labels in words for the admin, made from the names of columns: `memory_mib_per_gpu` is "memory per GPU (MiB)"."""

from __future__ import annotations

from django.apps import apps
from django.db.models import Field

_UNITS = {"s": "s", "ms": "ms", "mib": "MiB", "bytes": "bytes", "c": "°C", "w": "W"}
_WORDS = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "gids": "group ids",
    "gpu": "GPU",
    "gpus": "GPUs",
    "infiniband": "InfiniBand",
    "numa": "NUMA",
    "ssh": "SSH",
    "url": "URL",
    "uuid": "UUID",
    "vc": "virtual cluster",
    "xid": "Xid",
}


def words(name: str) -> str:
    """The words of a column's name, with its unit in brackets at the end."""
    parts = name.split("_")
    units = [_UNITS[part] for part in parts[1:] if part in _UNITS]
    text = " ".join(_WORDS.get(part, part) for index, part in enumerate(parts) if index == 0 or part not in _UNITS)
    return f"{text} ({' '.join(units)})" if units else text


def label_columns() -> None:
    """Give every column of ours without a label of its own the words of its name. Migrations do not see this."""
    for model in apps.get_models():
        if not model.__module__.startswith("muster."):
            continue
        for field in model._meta.get_fields():
            # What Django derives from the name where a column has no label of its own.
            if isinstance(field, Field) and field.verbose_name == field.name.replace("_", " "):
                field.verbose_name = words(field.name)
