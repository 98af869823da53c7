"""Jobs, their attempts and events."""
