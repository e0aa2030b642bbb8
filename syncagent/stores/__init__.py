"""Runs that outlive their process: any process can stop, follow and answer them."""
