"""The cells of virtual clusters: their shares of a pool, and what running jobs hold of them."""
