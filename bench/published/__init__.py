"""The simulator held against figures that others have published: what `make figures` writes."""
