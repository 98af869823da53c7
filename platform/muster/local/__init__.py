"""The embedded default: Postgres and Valkey from wheels, and one supervisor over every process of Muster."""
