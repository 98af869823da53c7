"""What would happen to a job, and why it stands where it does."""
