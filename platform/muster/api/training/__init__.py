"""How the training of a job goes."""
