"""A discrete-event simulator that makes its decisions with production's functions."""
