"""The provider that answers from a script: for tests, examples and dry trials, without a key or a cost."""
