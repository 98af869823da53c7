"""Launching an allocation: its code is fetched, its container is started, its end is reported."""
