"""What GPU time was used for."""
