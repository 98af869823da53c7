"""Volumes that jobs may mount."""
