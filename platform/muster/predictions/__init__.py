"""Learned predictions of run times and of waits: their models, and what they are trained on."""
