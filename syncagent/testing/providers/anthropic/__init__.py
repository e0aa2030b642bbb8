"""How FakeServer plays the anthropic dialect: what it rejects, and how it speaks."""
