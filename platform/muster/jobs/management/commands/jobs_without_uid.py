"""`manage.py jobs_without_uid`: the jobs that a root agent may have run as root, and what to rotate."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from muster.jobs.without_uid import runs_without_uid

_WHAT_TO_DO = """
A job in no container, whose agent was root, could read every file of its machine. For each node above:
- Give the agent a new credential. `manage.py rotate_keys` does this for all nodes.
- Replace other secrets of the machine: SSH keys, cloud credentials, TLS keys.
If the platform ran on one of these machines:
- Run `manage.py rotate_keys`.
- Replace the passwords of operators and of everyone in demo.json, and revoke the API tokens of scripts on that machine.
- Replace the passwords of Postgres and Redis, MUSTER_METRICS_TOKEN, and credentials of registries and webhooks."""


class Command(BaseCommand):
    """Lists jobs of users who had no uid."""

    help = "Lists the jobs, by user and node, that ran while their user had no uid, and what to rotate."

    def handle(self, *args: object, **options: object) -> None:
        """One line for each user and node."""
        runs = runs_without_uid()
        if not runs:
            self.stdout.write("No job ran for a user without a uid.")
            return
        for run in runs:
            self.stdout.write(
                f"{run.username} (uid {run.uid} now): {run.jobs} jobs on {run.node}, the last one, job {run.last_job},"
                f" at {run.last_at:%Y-%m-%d %H:%M} UTC"
            )
        self.stdout.write(_WHAT_TO_DO)
