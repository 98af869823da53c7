"""What lies on the user's machine: the settings, code folders, specs, the terminal."""
