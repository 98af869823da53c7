"""Slurm as the peer: an instance of the bench's own, if its programs are installed."""
