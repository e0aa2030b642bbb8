"""How providers say an answer, one module for each wire dialect."""
