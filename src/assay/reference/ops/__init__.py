"""The operations: importing a family's file registers its functions under their opcodes."""
