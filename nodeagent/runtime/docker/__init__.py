"""The runtime of the Docker Engine, by its API over the Unix socket."""
