"""The demonstration: a small cluster with people in it, and three jobs that run on it."""
