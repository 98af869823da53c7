"""What jobs print: stored by byte offset, read back exactly."""
