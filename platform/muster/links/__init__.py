"""Servers that are reached over SSH: agents are brought there, started, and spoken with through one connection."""
