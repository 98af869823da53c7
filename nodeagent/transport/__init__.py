"""Calls to the platform: dialled over HTTP, or over a link that the platform opened."""
