"""GPU drivers: what GPUs a node has and how they are."""
