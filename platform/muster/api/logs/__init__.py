"""What jobs print."""
