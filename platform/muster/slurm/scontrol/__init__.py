"""scontrol: shows jobs, nodes and partitions in full, and changes jobs."""
