"""Rules of Mistral."""
