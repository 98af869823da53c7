"""What a node can start, from what its agent says of its runtimes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.model.lifecycle import Form

PROCESS = "process"
# By what field of its spec, or by its lack, a job is of a form that a node may not start.
ASKED_BY: Mapping[Form, str] = {
    Form.PLAIN: "image",
    Form.IMAGE: "image",
    Form.CONTAINER: "shm",
    Form.IMAGE_VOLUMES: "mounts",
    Form.CONTAINER_VOLUMES: "mounts",
}


def forms_of(runtimes: Collection[str], default_image: str, mount_roots: Collection[str] = ()) -> tuple[Form, ...]:
    """The forms of the jobs that the node can start; none where its agent has said nothing, and so nobody knows."""
    found = set[Form]()
    for runtime in runtimes:
        if runtime == PROCESS:
            found.add(Form.PLAIN)
        else:
            found |= {Form.IMAGE, Form.PLAIN, Form.CONTAINER} if default_image else {Form.IMAGE}
            if mount_roots:
                found |= {Form.IMAGE_VOLUMES, Form.CONTAINER_VOLUMES} if default_image else {Form.IMAGE_VOLUMES}
    return tuple(form for form in Form if form in found)
