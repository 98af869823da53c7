"""Slurm's commands over REST."""
