"""What a trial asks for: calls of models, samplings and code of the user's, each durable and accounted for."""
