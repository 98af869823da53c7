"""The version of this SDK."""

from __future__ import annotations

# To ask the installed package's metadata for it takes longer than to import any module here.
VERSION = "0.1.0"
