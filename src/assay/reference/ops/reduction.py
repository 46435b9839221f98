"""Reductions."""

from assay.reference.bodies import body_kind, call_batched

__all__ = ["body_kind", "call_batched"]
