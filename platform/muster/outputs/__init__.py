"""The files that jobs leave behind: taken from the agents, kept for a while, handed out."""
