"""Answers as tables, sheets and lines for people."""
