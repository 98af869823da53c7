"""How long a job will run, by what its owner and the ends of similar jobs say."""
