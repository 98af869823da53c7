"""How long jobs waited, and for what."""
