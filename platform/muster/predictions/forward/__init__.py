"""Policies of pools run forward in the background, and looked up: docs/operator/forward.md."""
