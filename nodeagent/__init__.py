"""The agent of a node: starts, watches and stops jobs for the platform. Standard library only."""

__version__ = "0.1.0"
