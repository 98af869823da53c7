"""Predictions of run times, from the owner's estimate and similar jobs that have ended."""
