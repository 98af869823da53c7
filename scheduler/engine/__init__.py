"""One decision: the state of a pool, the context of a cycle, and `decide(snapshot, config) -> plan`."""
