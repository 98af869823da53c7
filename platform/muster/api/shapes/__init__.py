"""What the API reads and answers, field by field: the source of the OpenAPI document and the check of bodies."""
