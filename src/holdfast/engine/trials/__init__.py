"""Running one trial: its attempts, its durable steps and conversation, and what is recorded of it."""
