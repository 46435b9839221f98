"""Campaigns: programs are generated, checked in batches, and what is wrong is traced, reduced and stored."""
