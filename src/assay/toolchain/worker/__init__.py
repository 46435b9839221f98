"""The worker: the process that loads the compiler under test. Runs unchanged under every jax from 0.4.13 on.

    python worker/ CONTROL_FD

The idea: what is started is a *fork server*. It imports jax, and nothing more: no backend, no thread. For each "fork"
that the host sends on the control socket, with two file descriptors, it forks a child that serves requests on the first
and has the second as its stdout and stderr. When the child ends the server reports its wait status, and the host asks
for another, which is there in the time of a fork rather than of an import. That holds for every toolchain. (Pebble's
pool, which does the same within one interpreter, cannot: it pickles functions between processes of one Python, and a
toolchain is usually another Python with no assay in it.)

The invariant: nothing of a request outlives its child, and nothing but frames is ever written to a child's channel.

This folder imports nothing of assay, only itself, jax and what jax needs, and keeps to the syntax of Python 3.9.
Version differences are found by looking for attributes, never by version numbers.

    server      the fork server and what a child is
    requests    the table of requests: describe, load, to_hlo, compile, run, release, compile_for_tpu
    user_file   a user's Python file -> lowered cases
    options     XLA's options, from text
    programs    HLO and StableHLO in their several forms; what differs between jaxlibs
    wire        frames and arrays; the host uses these too
    tpu         compiling for a TPU that is not there
    pjrt        the calls of the PJRT C API that do it
    faults      ways to end badly on purpose, for tests
"""
