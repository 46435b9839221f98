"""Programs drawn over every opcode and element type, each run four times by three parties that share no code.

    choices     what a draw decides, recorded, so that a draw can be replayed and made smaller
    values      arrays by class: small integers, ordinary values, edges, any bits, ties
    builder     a drawn program: parameters, instructions, computations
    catalogue   opcode -> who draws it and the element types it takes
    elementwise, movement, indexing, folding, contraction, control     who draws what
    rivals      XLA:CPU, optimised and with its passes off
    interpreter the StableHLO interpreter, in a process of its own, for it aborts
    faults      what is known to be wrong with the others
    comparison  one program, all parties, who disagrees
    run         long campaigns:  python tests/reference/independence/run.py --seconds 600 --seed 7

The invariant: a program that the type rules accept is compared wherever the other parties run it; what is not compared
is named in `faults`, with the reason.
"""
