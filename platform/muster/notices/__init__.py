"""Telling people what became of their jobs: by mail, by webhooks, and in a weekly digest."""
