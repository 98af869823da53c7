"""The seam between the jobs of the platform and what runs them."""
