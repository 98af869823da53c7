"""What operators and managers do with virtual clusters that have jobs."""
