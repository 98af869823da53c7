"""What jobs write goes to the platform: logs while they run, outputs when they have ended."""
