"""Pure, synchronous stages of the path: no I/O, no clock of their own."""
