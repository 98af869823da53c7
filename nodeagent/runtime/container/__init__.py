"""What the runtimes with a container engine share: the plan of a container, its job, and images."""
