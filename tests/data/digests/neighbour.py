"""A file beside the tasks, which imports it."""

from holdfast import Answer

PROMPTS = {"first": "Name the capital of"}


class Style:
    def __init__(self, name):
        self.name = name


def greet(text):
    return f"Hello, {text}"


def fallback(reply):
    return Answer(reply.text or PROMPTS["first"])
