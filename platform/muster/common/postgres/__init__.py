"""Django's backend for Postgres, which does not send a query to learn that a connection is there."""
