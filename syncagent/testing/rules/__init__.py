"""What providers reject, one module for each wire dialect."""
