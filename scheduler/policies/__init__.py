"""Who goes first, and who makes room: one folder for each policy, registered by its name."""
