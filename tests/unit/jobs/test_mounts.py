"""Volumes in a spec, as they are read and as they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.spec import json_schema, parse_spec
from scheduler.model.lifecycle import RuntimeNeed


def spec(*mounts: Any, **fields: Any) -> dict[str, Any]:
    return {"command": "true", "image": "busybox", "mounts": list(mounts), **fields}


@pytest.mark.parametrize(
    ("written", "stored"),
    [("data:/data", "data:/data:ro"), ("data:/data:ro", "data:/data:ro"), ("a-1:/mnt/x_y.z:rw", "a-1:/mnt/x_y.z:rw")],
)
def test_a_mount_is_stored_with_what_was_left_out(written: str, stored: str) -> None:
    assert parse_spec(spec(written)).stored()["mounts"] == [stored]


@pytest.mark.parametrize(
    ("mount", "says"),
    [
        ("/:/host", "VOLUME:/FOLDER:ro"),
        ("/var/run/docker.sock:/s", "VOLUME:/FOLDER:ro"),
        ("Data:/data", "VOLUME:/FOLDER:ro"),
        ("data", "VOLUME:/FOLDER:ro"),
        ("data:data", "VOLUME:/FOLDER:ro"),
        ("data:/data:rwx", "VOLUME:/FOLDER:ro"),
        ("data:/data:ro:x", "VOLUME:/FOLDER:ro"),
        ("data:/data\n", "plain path"),
        ("data:/", "VOLUME:/FOLDER:ro"),
        ("data://", "plain path"),
        ("data:/a/../etc", "without . and .."),
        ("data:/proc/sys", "/proc is the container's own"),
        ("data:/sys", "/sys is the container's own"),
        ("data:/dev/shm", "/dev is the container's own"),
        ("data:/etc", "/etc is the container's own"),
        ("data:/run/podman", "/run is the container's own"),
        ("data:/var/run/docker.sock", "/var/run is the container's own"),
        ("data:/muster/home", "/muster is the container's own"),
        ("data:/tmp", "/tmp is the container's own"),
        ("data:/x,source=/etc", "plain path"),
        ("data:/\u202edata", "plain path"),
        ("data:/" + "x" * 500, "more than 500"),
        ({"source": "/", "target": "/x"}, "write text"),
        (7, "write text"),
    ],
)
def test_a_mount_that_cannot_be_is_refused_by_its_place(mount: Any, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_spec(spec("good:/good", mount))
    assert [error.field for error in caught.value.errors] == ["mounts.1"]
    assert says in caught.value.errors[0].message


@pytest.mark.parametrize(
    ("mounts", "workdir", "field"),
    [
        (["a:/workspace"], "/workspace", "mounts.0"),
        (["a:/workspace/data"], "sub", "mounts.0"),
        (["a:/opt"], "/opt/src", "mounts.0"),
        (["a:/opt/src"], "//opt/./src/", "mounts.0"),
        (["a:/data", "b:/data"], "/workspace", "mounts.1"),
        (["a:/data/x", "b:/data"], "/workspace", "mounts.1"),
        (["a:/data", "a:/data/x/y"], "/workspace", "mounts.1"),
    ],
)
def test_volumes_lie_beside_the_working_folder_and_each_other(mounts: list[str], workdir: str, field: str) -> None:
    with pytest.raises(Invalid, match="overlaps") as caught:
        parse_spec(spec(*mounts, workdir=workdir))
    assert [error.field for error in caught.value.errors] == [field]
    assert parse_spec(spec("a:/data", "b:/database", workdir="/dat")).mounts == ["a:/data:ro", "b:/database:ro"]


@pytest.mark.parametrize(
    ("workdir", "says"),
    [
        ("/", "the root of everything"),
        ("/etc/x", "/etc is the container's own"),
        ("/run/x", "/run is the container's own"),
        ("/var/./run/nvidia-container-devices/all", "/var/run is the container's own"),
        ("/w,source=/etc", "write a plain path"),
        ("/w:ro", "write a plain path"),
    ],
)
def test_a_working_folder_lies_where_a_volume_could(workdir: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_spec(spec(workdir=workdir))
    assert [error.field for error in caught.value.errors] == ["workdir"]
    assert says in caught.value.errors[0].message
    for good in ("/opt//src/./", "/var/lib/x", "sub folder/é", "/workspace"):
        assert parse_spec(spec(workdir=good)).workdir == good


def test_there_are_not_too_many() -> None:
    with pytest.raises(Invalid, match="16"):
        parse_spec(spec(*(f"a:/m/{number}" for number in range(17))))


def test_a_job_with_volumes_needs_a_node_that_mounts_them() -> None:
    assert parse_spec(spec("a:/a")).form is RuntimeNeed.IMAGE_VOLUMES
    assert parse_spec({"command": "true", "mounts": ["a:/a"]}).form is RuntimeNeed.CONTAINER_VOLUMES
    assert parse_spec(spec()).form is RuntimeNeed.IMAGE


def test_editors_are_told_the_pattern() -> None:
    assert json_schema()["properties"]["mounts"]["items"]["pattern"].startswith("^[a-z0-9]")
