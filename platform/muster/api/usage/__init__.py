"""Reports on the use of GPU time."""
