"""The health of the platform."""
