"""Forecasts of waits: from the submission of a job, or from when it may start, until it gets its GPUs."""
