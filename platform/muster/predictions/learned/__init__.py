"""The model of run times: trained in a child process, scored, and asked by submissions."""
