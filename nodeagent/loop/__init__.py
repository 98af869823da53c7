"""The loop that brings what runs here and what should run here together; its decisions are pure."""
