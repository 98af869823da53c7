"""Cells of pools and virtual clusters."""
