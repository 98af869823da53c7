"""A pool's policy run forward from the present: when each waiting job, and a job submitted now, would start."""
