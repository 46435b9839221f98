"""A check: compile a program with the toolchain under test, run it, run the reference, and let the oracle compare the
two.

`judge` does it for one program on one set of inputs; `api` for whatever the user names. Before a mismatch is believed
it has to survive another run, the deterministic bound and, where the bound was sampled, more samples: a false alarm
is our worst bug.
"""
