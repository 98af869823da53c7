"""How pools decide."""
