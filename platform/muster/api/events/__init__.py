"""Changes as they happen."""
