"""Messages between agent and platform: calls, frames of links, shells. Standard library only."""
