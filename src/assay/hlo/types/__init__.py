"""What shape each instruction's result must have.

One rule an opcode, in a table a family: elementwise, movement, contraction (with reductions, sorting, linear algebra
and random numbers), control (with asynchronous execution and collectives). Each rule says what XLA's shape inference
and verifier say, so that a module which passes here is one that XLA would take, layouts aside. To add an opcode:
opcodes.py, a rule here, and a case in tests/hlo/test_types.py that is accepted and one that is refused.
"""

from assay.hlo.types.check import RULES, check_module, infer_shape

__all__ = ["RULES", "check_module", "infer_shape"]
