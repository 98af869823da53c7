"""Job groups: jobs that are submitted, held, cancelled and run again as one, and share one budget.

What the members of a group have to do with each other, such as the values of a sweep, is the business of the app of its
kind.
"""
