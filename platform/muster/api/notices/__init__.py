"""Notices and webhooks."""
