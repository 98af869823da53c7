"""`sinfo`: partitions, and the states of their nodes."""
