"""How FakeServer plays each provider: what it rejects, and how it speaks."""
