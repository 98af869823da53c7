"""Two-level scheduling: external frameworks decide by offers."""
