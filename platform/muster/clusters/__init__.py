"""Actions of operators and managers on virtual clusters that have jobs."""
