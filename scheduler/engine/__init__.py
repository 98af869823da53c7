"""The decision of one cycle: scheduler state, cycle context, and `decide(snapshot, config) -> plan`."""
