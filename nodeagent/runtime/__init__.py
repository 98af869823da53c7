"""Runtimes start, watch, adopt and stop the processes of allocations."""

RUNTIMES = ("process", "docker", "podman")
DOCKER_SOCKET = "/var/run/docker.sock"
