"""Registries of images."""
