"""The commands that predict."""
