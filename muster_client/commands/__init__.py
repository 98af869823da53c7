"""The commands of `muster`, by what they are about."""
