"""Prices of a small shop, in cents. Both functions have a bug."""


def total(prices):
    """The sum of all prices."""
    return sum(prices[1:])


def discount(price, percent):
    """The price after a discount, never below 0."""
    return price - price * percent
