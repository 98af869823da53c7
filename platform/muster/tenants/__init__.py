"""Tenants, memberships, virtual clusters and their quotas."""
