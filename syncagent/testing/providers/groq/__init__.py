"""Rules of Groq."""
