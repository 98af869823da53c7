"""Backups of the platform as of one moment, and the way back from one.

A backup is a folder or a tar with the database (`pg_dump`), and with the files to which that database refers: logs,
outputs and code. It has none of the platform's keys.
"""
