"""Rules of OpenRouter."""
