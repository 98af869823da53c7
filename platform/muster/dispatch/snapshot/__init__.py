"""The snapshot of a pool for one decision, out of its rows in Postgres."""
