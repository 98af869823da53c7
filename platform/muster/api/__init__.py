"""REST v1 and its event streams."""
