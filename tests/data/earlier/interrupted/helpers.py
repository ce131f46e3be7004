"""How something is asked for."""

from holdfast import Message

OPENING = Message("user", "Please: ")


def asked_politely(text):
    return f"{OPENING.content}{text}"
