"""The runtime of Podman, by its command line: its Docker-compatible API drops devices by CDI name silently."""
