"""How FakeServer plays the openai_chat dialect: what it rejects, and how it speaks."""
