"""What a fork keeps of a trial: the identity of its answer and scores, and the names of its slots."""
