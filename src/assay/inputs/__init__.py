"""Makes arguments for a program: drawn from a seed, or read from a file.

Invariants: the same module, seed and class give the same bytes on every machine and Python; an integer that is used as
an index is in range; an array whose elements the program promises to be sorted or distinct keeps the promise.
"""
