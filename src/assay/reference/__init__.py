"""The reference: what a correct compiler may answer, for every element of every output.

`evaluator` walks a module; `ops` has one short function an opcode, one file a family; a `Ball` is a value with its
error bound, and `Context` is where every rounding is accounted for. Nothing here knows a compiler.
"""
