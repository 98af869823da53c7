"""The user's machine: the settings, code folders, specs, the terminal."""
