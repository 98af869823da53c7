"""Arrays and their members."""
