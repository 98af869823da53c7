"""Times with seconds and zone. The admin's script shows them on the reader's clock."""

from __future__ import annotations

DATETIME_FORMAT = "Y-m-d H:i:s T"
