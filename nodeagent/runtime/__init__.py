"""Runtimes start, watch, adopt and stop the processes of allocations."""
