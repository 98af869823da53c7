"""What GPUs, jobs and nodes used over time."""
