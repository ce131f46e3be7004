"""The stages of a trial: each is run once, its outcome is durable before the next one starts."""
