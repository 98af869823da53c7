"""Slurm's commands for users: each reads its arguments and prints as Slurm's does, and acts by the services."""
