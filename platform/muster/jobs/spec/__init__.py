"""The job spec: what its keys may say, and the one value that is stored of it. Nothing here asks the database."""
