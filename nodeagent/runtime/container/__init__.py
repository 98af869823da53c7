"""Shared parts of the runtimes with a container engine: the plan of a container, its job, and images."""
