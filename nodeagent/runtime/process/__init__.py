"""The runtime that needs no container engine: each allocation under a small shim process of ours."""
