"""What every provider over HTTP shares: where a model is reached, one request, and what is made of an answer."""
