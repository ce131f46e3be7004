"""What a trial asks for: model calls, samplings and user code, each durable and accounted for."""
