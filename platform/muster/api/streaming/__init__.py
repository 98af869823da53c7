"""Code that all paths which stream or wait share."""
