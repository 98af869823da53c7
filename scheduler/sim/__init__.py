"""A discrete-event simulator that decides with the very functions that production decides with."""
