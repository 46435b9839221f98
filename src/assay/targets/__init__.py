"""Targets: a compiler and what runs its output. One file each, functions over a Worker.

The idea: a target turns a program and flat arrays into flat arrays by way of a compiler, and gives back what the
compiler made of the program. It judges nothing; the oracle does.

The invariant: a target never looks at a result, and a WorkerDied passes through it untouched, for it is a finding.

    cpu     XLA:CPU, compiled and run in the worker's process
"""
