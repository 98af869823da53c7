"""Organisations, tenants and virtual clusters."""
