"""State that the agent keeps in its folder, and the messages that its loop receives."""
