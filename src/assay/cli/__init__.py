"""The command line: one file a command; it parses arguments, calls one function, prints. No logic."""
