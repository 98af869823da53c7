"""The policies of pools."""
