"""The agent's access to the operating system: files, sockets, signals, clocks, threads."""
