"""LLO, the low-level program that XLA:TPU emits, as text, as a typed program, and run.

libtpu dumps it for every kernel after every LLO pass and as final VLIW bundles. `text` reads a dump, `lower` makes a
bytecode of it, and the bytecode runs in NumPy (`interpret`) or in C (`native`). `semantics` says what each opcode means
and how that is known.
"""
