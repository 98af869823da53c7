"""Solves outside cycles: the process of each lane, and the targets that it stores."""
