"""The calls of the REST API, and how they travel."""
