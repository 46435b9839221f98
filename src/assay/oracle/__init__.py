"""Compares what a target computed with what it was allowed to compute, and says how they differ.

The reference gives each output element the set of values that a correct compiler may produce (a ball). An element
outside its set is a finding, whatever its size: there is no tolerance to choose. An element that the reference cannot
decide is counted, never judged. Nothing here knows how either side was computed.

Invariant: `outside` counts only elements for which no value of the ball, rounded to the output's type, equals the
target's.
"""
