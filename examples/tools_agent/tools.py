"""Tools that a model may call: plain functions with typed parameters."""

STOCK = {"apples": 12, "pears": 7, "plums": 3}


def stock(item: str) -> str:
    """How many of an item are in stock."""
    return f"{item}: {STOCK[item]}"
