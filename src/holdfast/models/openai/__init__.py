"""Providers for every server that speaks the OpenAI chat protocol, and presets for well-known services."""
