"""The platform about itself."""
