"""Folders of code."""
