"""Isolation: which pass of the compiler, which piece of the program is to blame.

The idea: everything a compiler says on the way down is a program. The module as it stood after each pass is run in the
reference on the same inputs, and the first whose result no correct compiler may give ends the interval in which the
wrong rewrite lies. Consecutive snapshots are nearly equal, so they are evaluated in lockstep: an instruction that
stands unchanged on unchanged operands has the value it had, and a rewrite that keeps a value ends there.

The invariant: only results convict. Nothing is blamed because it changed, and no pass is disabled to see what happens;
before a culprit is named, the snapshots at both ends of its interval have been executed whole, each on its own, and the
earlier one agrees where the later one does not. A snapshot that cannot be evaluated is never a finding.

    expressions  what an instruction computes, whatever it is called and wherever it stands
    lockstep     modules evaluated one after another, each value once
    signature    what became of the parameters and the results
    judgement    one snapshot's results against the unoptimized program's
    walk         the order in which snapshots are looked at
    region       what changed between two modules
    pipeline     all of it: the first pass that is wrong
"""
