"""The provider for the Messages API of Anthropic, and for servers that speak it."""
