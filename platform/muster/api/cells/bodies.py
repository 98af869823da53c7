"""Bodies of requests about cells."""

from rest_framework import serializers

from muster.api.fields import Integer, Shape, Text


class CellsWanted(Shape):
    """The cells that a virtual cluster shall have."""

    cells = serializers.DictField(child=Integer(), required=False, help_text="The number of cells by type.")
    pinned = serializers.ListField(
        child=Text(max_length=255), required=False, help_text="Addresses of physical cells for it alone."
    )


class CellsChange(CellsWanted):
    """The cells that a virtual cluster gets instead of its own."""

    version = Integer(help_text="The version that the change was made for.")
