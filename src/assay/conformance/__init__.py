"""Conformance: does the reference give what files with a known result expect?

The idea: a file of StableHLO's own test data (stablehlo/testdata) holds `@inputs`, `@expected` and a `@main` that hands
its result and the expectation to custom calls `check.expect_eq`, `check.expect_almost_eq` or `check.expect_close`. Each
file goes through the same import as a user's program, is evaluated by the reference, and is compared as its own call
says (`comparisons`).

The invariant: nothing passes unseen. A file that is not read, a check that is not found, an opcode without a model are
told with their reason; a file whose own expectation is off is excused only where mpmath shows it now (`exceptions`).

    python -m assay.conformance DIR
"""
