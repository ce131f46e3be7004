"""Which records of a trial are its transcript, and which of them lead to its answer."""
