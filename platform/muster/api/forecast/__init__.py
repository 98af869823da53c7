"""The forecast of a job, and the reason for its state."""
