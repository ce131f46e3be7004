"""What a person's code is and holds: a tree of code and values, taken before the first trial and compared later."""
