"""What a check found, as data, and the ways to show it: text for a person, JSON for a machine."""
