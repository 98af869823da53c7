"""Sweeps and their members."""
