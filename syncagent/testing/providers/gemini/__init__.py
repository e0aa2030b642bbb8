"""How FakeServer plays the gemini dialect: what it rejects, and how it speaks."""
