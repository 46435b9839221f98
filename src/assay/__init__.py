"""assay tells whether XLA compiled a program correctly."""
