"""An HLO module as the Python source of a function of jax.lax, as a person would write it."""

from assay.report.lax.source import lax_source

__all__ = ["lax_source"]
