"""How FakeServer plays the openai_responses: what it rejects, how it speaks."""
