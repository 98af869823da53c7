"""What all paths that stream or wait share."""
