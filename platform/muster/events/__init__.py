"""Records of what happened: event rows, audit rows, the outbox, and the wake-up calls that follow a commit."""
