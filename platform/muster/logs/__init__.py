"""The output of jobs: stored by byte offset, read back exactly."""
