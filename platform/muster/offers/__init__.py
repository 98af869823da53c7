"""Offers of GPUs to schedulers outside: roles, frameworks, standing offers, and what is launched on them."""
