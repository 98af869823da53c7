"""What sharing a pool cost."""
