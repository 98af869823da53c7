"""The commands of Slurm: what was typed goes to the server, which prints."""
