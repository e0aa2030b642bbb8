"""The ``syncagent`` command."""
