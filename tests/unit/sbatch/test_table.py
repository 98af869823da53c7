"""The operators' table of Slurm's words: its form, and the fields that errors name."""

from __future__ import annotations

import pytest

from muster.common.errors import Invalid
from muster.sbatch.site import Site
from muster.sbatch.table import Known, default_of, read_table, require_known

TABLE = """
cluster_name: ref
partitions:
  gpu: {pool: main, default: true, time: 1:00:00, max_time: 3-00:00:00, memory_per_cpu: 2G}
  debug: {pool: main, time: 10, max_time: 30, max_nodes: 2}
accounts:
  lab1: {tenant: vision, vc: vision-vc, default: true}
  lab2: {tenant: vision}
qos:
  normal: {default: true}
  short: {class: opportunistic, priority: high, max_time: 2:00:00}
shared_folders: [/shared, /data/scratch]
"""
KNOWN = Known(frozenset({"main"}), frozenset({"vision", "speech"}), {"vision-vc": "vision", "speech-vc": "speech"})


def test_a_table_is_read_with_times_as_slurm_writes_them() -> None:
    table = read_table(TABLE)
    require_known(table, KNOWN)
    gpu, debug = table.partitions.values()
    assert (gpu.time, gpu.max_time, gpu.memory_per_cpu) == (60, 3 * 24 * 60, 2048)
    assert (debug.time, debug.max_time, debug.max_nodes) == (10, 30, 2)
    assert [default_of(kind) for kind in (table.partitions, table.accounts, table.qos)] == ["gpu", "lab1", "normal"]
    assert (table.qos["short"].klass.value, table.qos["short"].max_time) == ("opportunistic", 120)
    assert read_table("") == read_table("partitions: {}")


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("partitions: [", "table", "not YAML"),
        ("- gpu", "table", "write a mapping with partitions"),
        ("partition: {}", "partition", "unknown key; did you mean 'partitions'?"),
        ("partitions: {gpu: {pool: main, tme: 1}}", "partitions.gpu.tme", "unknown key; did you mean 'time'?"),
        ("partitions: [gpu]", "partitions", "write a mapping, such as {name: {pool: main}}"),
        ("partitions: {gpu: main}", "partitions.gpu", "write a mapping, such as {pool: main}"),
        ("partitions: {gpu: {}}", "partitions.gpu.pool", "it is required"),
        ("partitions: {gpu: {pool: x}}", "partitions.gpu.pool", "there is no pool 'x'"),
        ("partitions: {gpu: {pool: main, time: 1h}}", "partitions.gpu.time", "write minutes, M:S, H:M:S"),
        ("partitions: {gpu: {pool: main, time: true}}", "partitions.gpu.time", "write text, such as 1:00:00"),
        ("partitions: {gpu: {pool: main, time: 9, max_time: 8}}", "partitions.gpu.time", "it is more than max_time"),
        ("partitions: {gpu: {pool: main, max_nodes: 0}}", "partitions.gpu.max_nodes", "write 1 or more"),
        ("partitions: {gpu: {pool: main, memory_per_cpu: 0}}", "partitions.gpu.memory_per_cpu", "write 1 or more"),
        ('partitions: {"a,b": {pool: main}}', "partitions.a,b", "a word has 1 to 64 letters"),
        (
            "partitions: {a: {pool: main, default: true}, b: {pool: main, default: true}}",
            "partitions.b.default",
            "a is the default already",
        ),
        ("accounts: {lab: {tenant: x}}", "accounts.lab.tenant", "there is no tenant 'x'"),
        ("accounts: {lab: {tenant: vision, vc: speech-vc}}", "accounts.lab.vc", "tenant vision has no virtual cluster"),
        ("qos: {short: {priority: top}}", "qos.short.priority", "write low, normal, high or urgent"),
        ("qos: {short: {class: best}}", "qos.short.class", "write guaranteed or opportunistic"),
        ("qos: {short: {max_time: soon}}", "qos.short.max_time", "write minutes"),
        ("shared_folders: [home]", "shared_folders.0", "the path must begin with /"),
        ("shared_folders: [/shared/../etc]", "shared_folders.0", "write a plain path"),
        ("cluster_name: my cluster", "cluster_name", "a word has 1 to 64 letters"),
    ],
)
def test_an_error_names_its_field(text: str, field: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        require_known(read_table(text), KNOWN)
    [error] = caught.value.errors
    assert error.field == field
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("folder", "plain"),
    [
        ("/shared/ada/run", "/shared/ada/run"),
        ("/shared", "/shared"),
        ("//shared/./ada/", "/shared/ada"),
        ("/shared/ada/../bob", None),
        ("/shareds/ada", None),
        ("home/ada", None),
        ("/shared/a\nb", None),
        ("", None),
    ],
)
def test_a_folder_in_a_shared_one_is_written_plainly(folder: str, plain: str | None) -> None:
    assert Site({}, shared_folders=("/shared",)).in_place(folder) == plain
