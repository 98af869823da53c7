"""Rows as the API's JSON. Plain functions: a serializer's machinery costs more than the query for a long list."""
