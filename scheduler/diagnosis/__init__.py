"""What an attempt, a GPU or a node tells about itself: causes, health, idleness, progress. Nothing here schedules."""
