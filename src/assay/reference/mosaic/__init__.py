"""Kernels that the TPU compiler writes for itself, read from their text and run on balls.

libtpu turns softmax attention and ragged dots into custom calls, `tpu_custom_call`, whose configuration holds the
kernel as MLIR text: a function on windows of the operands, run over a grid. So the kernel itself can be evaluated,
operation by operation, with the same rules as HLO.

The invariant: what the text says is done, nothing is known by a kernel's name. An operation or an attribute that is not
modelled, and a body that is no text (as Pallas writes them), is `unsupported`.

    text     a kernel's text as functions of operations
    memory   buffers that are read and written
    ops      what the operations mean, in terms of HLO's
    grid     windows, and the order in which they are worked on
"""
