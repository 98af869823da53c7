"""`sacct`: jobs, their attempts and what became of them."""
