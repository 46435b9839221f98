"""Makes a failing program small, and keeps what it shows.

The idea: a program is cut at any instruction by giving what was computed there as a new parameter with the reference's
own value, so that one try may drop most of the program; what is left is made smaller step by step. Each try is an HLO
module with arguments, valid by the type rules, and counts only where the same verdict, class and culprit are seen.

The invariant: the result shows what the program showed, was seen to do so, and is never larger than what was given.

    candidate   a module with arguments, how large it is, and what every edit ends with
    edit        cutting, replacing, inlining: pure functions from module to module
    values      what the reference computes at each instruction
    still       whether a candidate still shows it: verdict, class, culprit
    search      tries candidates on several workers, in order; budget and journal
    focus       outputs and instructions
    flow        loops, branches and calls
    shrink      dimensions
    plain       attributes, constants, values, element types
    run         all of it, until nothing gets smaller
    api         what the command line calls
"""

from assay.reduce.candidate import Candidate, Size
from assay.reduce.run import Reduced, reduce
from assay.reduce.still import Shown, Still

__all__ = ["Candidate", "Reduced", "Shown", "Size", "Still", "reduce"]
