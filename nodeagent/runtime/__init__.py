"""Runtimes start, watch, adopt and stop the processes of allocations."""

ENGINES = ("docker", "podman")
"""The container engines, the preferred one first."""
RUNTIMES = ("auto", "process", *ENGINES)
DOCKER_SOCKET = "/var/run/docker.sock"
