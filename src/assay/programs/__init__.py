"""From what a user has (a Python file, HLO or StableHLO, an exported artifact, a dump folder) to programs that can be
checked.

A `Program` is what the compiler is given, byte for byte, beside the HLO module that the reference runs.
"""
