"""The wire endpoint of the agents."""
