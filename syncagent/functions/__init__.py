"""Functions that a model implements: ``@llm_function`` and ``@llm_chat``."""
