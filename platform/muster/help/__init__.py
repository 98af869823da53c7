"""The documents of this repository, served beside the pages: rendered, with links between them, and searched."""
