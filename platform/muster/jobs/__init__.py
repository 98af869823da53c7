"""Jobs, attempts, allocations, GPU claims, and the services that change them."""
