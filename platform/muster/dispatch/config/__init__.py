"""The settings by which a pool and its planners decide, and what its policy remembers."""
