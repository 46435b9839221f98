"""HLO in Python: a module is plain frozen data, parsed from XLA's text and printed back to it.

Everything that XLA prints survives the round trip. What a tool computes with (shapes, operands, opcodes) is typed;
what it only carries (metadata, backend_config, sharding) stays the text that XLA wrote, and typed views of an
attribute are made on demand by `assay.hlo.attributes`. Instructions refer to each other by name inside their
computation, computations by name inside their module, so that a graph of a hundred thousand instructions is flat
data: it can be hashed, pickled and compared.
"""
