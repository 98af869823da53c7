"""Scripts with `#SBATCH` directives, read by Slurm's rules and translated into specs, with a report on each option.

What Slurm does was seen with 22.05.8; docs/reference/sbatch.md lists the options.
"""
