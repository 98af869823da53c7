"""Two-level scheduling: what frameworks outside decide by offers."""
