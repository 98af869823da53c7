"""What the agent needs of the operating system: files, sockets, signals, clocks, threads."""
