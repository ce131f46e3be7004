"""The engine: from an eval to finished trials. It plans, schedules, calls models, and runs and records trials."""
