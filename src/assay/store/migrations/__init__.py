"""How a store of an earlier version gets today's schema. `database` runs what is missing when a store is opened."""
