"""Predictions, and how they compare with what came true."""
