"""The litmus test (section 3.1.1 of the paper): does a program keep what HLO asks of it without checking?

The idea: `assay.contracts` says what is asked; a rule for each says whether it is kept, from the module alone or from
the values of one evaluation. What cannot be told is undecided, never kept. What is broken is followed to the outputs: a
second evaluation marks what depends on it as undecided, and the reference carries that mark along, so a division by
zero that a select throws away harms nothing.

    look      what a rule is given and what it says
    elements  rules that hold element by element
    indices   rules on indices of gathers and scatters
    bodies    rules on what reductions apply
    written   bodies that jax writes, known by their structure
    orders    rules on comparators
    spans     what intervals of values prove, where bounds leave it open
    statics   rules that the module alone decides
    run       the test
"""

from assay.checking.litmus.look import State
from assay.checking.litmus.run import Litmus, Telling, litmus, litmus_dict

__all__ = ["Litmus", "State", "Telling", "litmus", "litmus_dict"]
