"""Rules and speech of xAI."""
