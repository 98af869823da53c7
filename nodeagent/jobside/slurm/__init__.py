"""Programs of batch scripts: Slurm's commands, and the supervisor that runs a script.

The agent writes these modules into the folder of a job, with a `__main__.py` and a script for each command. They run
there by any Python from 3.9 on, need its standard library, and import no other part of the agent.
"""
