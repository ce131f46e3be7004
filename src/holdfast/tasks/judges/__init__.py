"""Models as judges of answers: `model_graded`, its prompt, its verdicts, and its slots, one for each judge."""
