"""The table of Slurm's words."""
