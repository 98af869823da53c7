"""GPUs offered to schedulers of others."""
