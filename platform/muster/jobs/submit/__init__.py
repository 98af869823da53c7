"""The checks and defaults of a submission."""
