"""Code that every app may use: errors, the clock, secrets' digests. Imports no other app."""
