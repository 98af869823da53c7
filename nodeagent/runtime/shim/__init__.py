"""Shared parts of all runtimes: a small process of our own beside each job, its folder, the agent's view of both."""
