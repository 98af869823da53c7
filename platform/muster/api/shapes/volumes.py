"""Volumes that jobs may mount. Where they lie on the nodes is for operators, in the admin."""

from __future__ import annotations

from muster.api.shapes.common import Choice, Shape, Text


class Volume(Shape):
    """A volume of a tenant."""

    name = Text(help_text="As `mounts` of a spec names it.")
    tenant = Text(help_text="The name of the tenant that the volume belongs to.")
    vc = Text(allow_null=True, help_text="Null: every virtual cluster of the tenant.")
    mode = Choice(choices=[("ro", "ro"), ("rw", "rw")], help_text="The most that jobs get.")


class VolumeList(Shape):
    """The volumes of the caller's tenants."""

    results = Volume(many=True, help_text="The volumes.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")
