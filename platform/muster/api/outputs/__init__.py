"""The files that jobs leave."""
