"""Upload of a job's data to the platform: logs while it runs, outputs when it has ended."""
