"""What agent and platform say to each other: messages, calls, frames of links, shells. Standard library only."""
