"""What `Run` gives beside rows: counts and data frames."""
