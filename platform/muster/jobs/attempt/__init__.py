"""What happens to a job between its placement and the end of its attempt."""
