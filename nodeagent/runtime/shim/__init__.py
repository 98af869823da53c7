"""What every runtime shares: a small process of our own beside each job, its folder, and the agent's view of both."""
