"""The command `muster-agent`: what it offers, and the parts of the agent put together."""
