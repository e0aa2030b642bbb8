"""The dialect of Google's Gemini API."""
