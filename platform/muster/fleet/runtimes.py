"""What a node can start, from what its agent says of its runtimes."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.lifecycle import Form

PROCESS = "process"


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
