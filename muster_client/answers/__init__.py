"""The answers of the REST API, as typed dictionaries. Standard library only."""
