"""Predictions of run times and of rates by GPU type, from what users say and what similar jobs have shown."""
