"""Sessions, tokens and the caller."""
