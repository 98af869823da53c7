"""The order of waiting jobs."""
